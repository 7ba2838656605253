"""The names that `import tff_partial` gives."""

import os
import pathlib
import re
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


START = """
import tff_partial
from tff_partial.core.lazy import tf
tf.constant(1) + 1
"""
RUNS = """
import sys
import tensorflow
sys.stderr.write("tensorflow is imported\\n")
import tff_partial
from tests import tiny
def create():
    x = tensorflow.keras.Input([tiny.FEATURES])
    return tensorflow.keras.Model(x, tensorflow.keras.layers.Dense(tiny.CLASSES)(x + 1))
spec = tff_partial.ModelSpec(create, [tiny.FEATURES])
process = tiny.build("fedavg", tff_partial.LocalTraining(steps=1, batch_size=4), spec)
list(tff_partial.simulate(process, tiny.client_data(), rounds=1))
tff_partial.run("mnist", data="embedded", model="softmax", clients=2, clients_per_round=1,
                rounds=1, local_steps=1, output_dir=sys.argv[1])
sys.stderr.write("finished\\n")
tff_partial.simulate(process, tiny.client_data(), rounds=1, clients_per_round=9)
"""


def errors_of(code, *arguments, **environment):
    """What a program writes to stderr, with no log level but what is given."""
    given = {k: v for k, v in os.environ.items() if k != "TF_CPP_MIN_LOG_LEVEL"} | environment
    program = [sys.executable, "-c", code, *map(str, arguments)]
    return subprocess.run(program, capture_output=True, text=True, cwd=ROOT, env=given).stderr


def test_tensorflow_logs_nothing_when_it_starts():
    assert errors_of(START) == ""


def test_training_logs_nothing_even_if_tensorflow_was_imported_before_and_hides_no_error(tmp_path):
    folder = tmp_path / "run"
    _, after = errors_of(RUNS, folder).split("tensorflow is imported\n")
    run, error = after.split("finished\n")
    first, *bars = re.split("[\r\n]+", run.strip())
    assert first.startswith("mnist with fedavg; data embedded: ")
    assert first.endswith(f"; results in {folder}")
    assert bars
    assert all(re.match(r"\s*[0-9]+%\|", bar) for bar in bars), bars
    first, *_, last = error.splitlines()
    assert first == "Traceback (most recent call last):"
    assert (
        last == "ValueError: clients_per_round must be from 1 to 3. Received: clients_per_round=9"
    )


def test_the_user_s_own_log_level_counts():
    code = "import os, sys, tff_partial; sys.stderr.write(os.environ['TF_CPP_MIN_LOG_LEVEL'])"
    assert errors_of(code) == "3"
    assert errors_of(code, TF_CPP_MIN_LOG_LEVEL="1") == "1"
