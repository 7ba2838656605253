"""The names that `import tff_partial` gives."""

import pathlib
import subprocess
import sys

import pytest

import tff_partial
from tests import tiny

ROOT = pathlib.Path(__file__).parents[1]

pytestmark = pytest.mark.usefixtures("keep_runtime")


def test_importing_the_package_is_quick():
    code = (
        "import sys, tff_partial; assert 'run' in dir(tff_partial); "
        "assert set(tff_partial.__all__) <= set(dir(tff_partial)); tff_partial.LocalTraining; "
        "tff_partial.algorithms.fedavg; "
        "sys.exit('tensorflow' in sys.modules or 'tensorflow_federated' in sys.modules)"
    )
    subprocess.run([sys.executable, "-c", code], check=True, cwd=ROOT)


def test_names_that_are_not_there():
    for module in (tff_partial, tff_partial.algorithms):
        with pytest.raises(AttributeError, match="no attribute 'fedsgd'"):
            module.fedsgd  # noqa: B018


def test_clients_are_records_for_a_process():
    process = tiny.build("fedavg", tff_partial.LocalTraining(steps=2, batch_size=4))
    records = tff_partial.clients(tiny.client_data()).records(seed=1, tiers=[0, 0, 0])
    output = process.next(process.initialize(), records)
    assert output.metrics["client_work"]["train_examples"] > 0
    assert [int(next(iter(record))["client_id"]) for record in records] == [0, 1, 2]


def test_the_public_classes_are_the_library_s():
    model = tff_partial.Model(tiny.create_dense, (tiny.FEATURES,))
    assert isinstance(model, tff_partial.ModelSpec)
    assert tff_partial.algorithms.scaffold.ALGORITHM.name == "scaffold"
