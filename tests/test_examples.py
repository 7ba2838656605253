"""The examples run, and what they show is what the library does."""

import importlib.util
import pathlib

import numpy as np
import pytest

from tests import tiny
from tests.algorithms.layer_rounds import build, cohort, create_dense, run
from tff_partial.core.local_training import LocalTraining

EXAMPLES = pathlib.Path(__file__).parent.parent / "examples"
LOCAL = LocalTraining(steps=4, batch_size=5, learning_rate=0.3)
CUT = (0, 1, 2)


def load(name):
    spec = importlib.util.spec_from_file_location(name, EXAMPLES / f"{name}.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.mark.parametrize("name", ["fedavg", "embracing"])
def test_by_hand_gives_the_librarys_weights(name):
    data, rounds = tiny.client_data(), 3
    built = build(name, LOCAL, weighting="uniform")
    model = create_dense()
    model.build((None, tiny.FEATURES))
    model.set_weights(tiny.flat(built.initialize().global_model_weights))
    records = cohort(data, CUT)
    by_hand = load("fedavg_by_hand")
    arguments = (
        model,
        data,
        [range(3)] * rounds,
        lambda t, client: tiny.batches(records[client], t, LOCAL),
        LOCAL.learning_rate,
    )
    initial = model.get_weights()
    if name == "fedavg":
        by_hand.fedavg(*arguments)
    else:
        by_hand.embracing(*arguments, CUT)
    found = run(built, data, CUT, rounds)
    assert max(np.abs(a - b).max() for a, b in zip(found, initial)) > 0.1
    for a, b in zip(found, model.get_weights()):
        np.testing.assert_allclose(a, b, atol=1e-5)


def test_by_hand_learns(capsys):
    load("fedavg_by_hand").main()
    lines = capsys.readouterr().out.splitlines()
    assert [line.split(":")[0] for line in lines] == ["FedAvg", "EmbracingFL"]
    for line in lines:
        before, after = (float(word) for word in line.split() if word[0] == "0")
        assert after > before + 0.2
