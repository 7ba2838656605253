"""Tests that algorithms share whose clients keep their models, against a NumPy reference."""

import math

import numpy as np
import pytest

from tests import tiny
from tests.references import averaging as reference
from tff_partial.core.local_training import LocalTraining
from tff_partial.processes import parameter_subsets

TAU = 3
SIZES = (12, 7, 20)
SHAPES = [(5, 4), (4,), (4, 3), (3,)]
LAYERS = [0, 0, 1, 1]
NAMES = ("partial_averaging", "periodic_averaging", "vrl_sgd")


def local(**changes):
    settings = {"steps": TAU, "batch_size": 4, "learning_rate": 0.3, "momentum": 0.6}
    return LocalTraining(**{**settings, "weight_decay": 0.02, **changes})


def owners(partition, shapes, layers, tau):
    if partition == "layer":
        return parameter_subsets.by_layer(shapes, layers, tau)
    return parameter_subsets.by_channel(shapes, tau)


def averaging(name, partition="channel"):
    if name == "partial_averaging":
        return reference.Partial(TAU, owners(partition, SHAPES, LAYERS, TAU))
    return {"periodic_averaging": reference.Periodic, "vrl_sgd": reference.VrlSgd}[name](TAU)


def iterations(data, rounds, learning, rates):
    cohort = tiny.cohort(data)
    drawn = [[tiny.batches(record, t, learning) for record in cohort] for t in range(rounds)]
    return [
        {
            "learning_rate": rates[k],
            "batches": {i: drawn[k // TAU][i][k % TAU] for i in range(len(data))},
        }
        for k in range(rounds * TAU)
    ]


def split(vector):
    parts = np.split(vector, np.cumsum([math.prod(s) for s in SHAPES])[:-1])
    return [part.reshape(shape) for part, shape in zip(parts, SHAPES)]


def assert_round(running, wanted):
    for a, b in zip(running.weights(), wanted["mean"]):
        np.testing.assert_allclose(a, b, atol=1e-6)
    for client, model in enumerate(wanted["models"]):
        for a, b in zip(split(running.kept(client)["parameters"]), model):
            np.testing.assert_allclose(a, b, atol=1e-6)
    found = float(running.metrics[-1]["discrepancy"])
    assert found == pytest.approx(wanted["discrepancy"], rel=1e-4, abs=1e-9)
    before = float(running.metrics[-1]["discrepancy_before"])
    assert before == pytest.approx(wanted["before"], rel=1e-4, abs=1e-9)
    assert before > 1e-4


def check_fedprox(name):
    """With mu, against NumPy."""
    data = tiny.client_data(SIZES)
    running = tiny.Rounds(tiny.build(name, local(), mu=0.7), data)
    steps, decayed = iterations(data, 3, local(), [0.3] * 9), {"weight_decay": 0.02}
    start = running.weights(), data, steps, averaging(name)
    wanted = reference.run(*start, momentum=0.6, mu=0.7, **decayed)
    without = reference.run(*start, momentum=0.6, **decayed)
    for t in range(3):
        running.next()
        assert_round(running, wanted[t * TAU + TAU - 1])
    # It holds clients together.
    assert wanted[-1]["before"] < without[-1]["before"]


class Rounds:
    """Three clients; a test file's subclass names the algorithm."""

    name: str

    def test_equals_numpy_with_a_rate_that_warms_up_and_changes_within_a_round(self):
        data, learning = tiny.client_data(SIZES), local(learning_rate="0.3~2,1.4:0.1", momentum=0.0)
        rates = [0.05, 0.1, 0.15, 0.2, 0.25, 0.1, 0.1, 0.1, 0.1]
        running = tiny.Rounds(tiny.build(self.name, learning), data)
        wanted = reference.run(
            running.weights(),
            data,
            iterations(data, 3, learning, rates),
            averaging(self.name),
            weight_decay=0.02,
        )
        for t in range(3):
            running.next()
            assert_round(running, wanted[t * TAU + TAU - 1])

    def test_an_interval_of_one_is_synchronous_sgd(self):
        """All local models are the same, and FedAvg with one step is as well."""
        data, learning = tiny.client_data(SIZES), local(steps=1, momentum=0.0)
        running = tiny.Rounds(tiny.build(self.name, learning), data)
        fedavg = tiny.Rounds(tiny.build("fedavg", learning, weighting="uniform"), data)
        for _ in range(4):
            running.next()
            fedavg.next()
            for a, b in zip(running.weights(), fedavg.weights()):
                np.testing.assert_allclose(a, b, atol=1e-6)
            assert float(running.metrics[-1]["discrepancy"]) < 1e-12

    def test_one_client_is_plain_sgd(self):
        data = tiny.client_data((20,))
        running = tiny.Rounds(tiny.build(self.name, local(), population=1), data)
        fedavg = tiny.Rounds(tiny.build("fedavg", local()), data)
        running.next()
        fedavg.next()
        for a, b in zip(running.weights(), fedavg.weights()):
            np.testing.assert_allclose(a, b, atol=1e-6)

    def test_without_any_examples_the_model_stays(self):
        x, y = tiny.client_data((5,))[0]
        running = tiny.Rounds(tiny.build(self.name, local(), population=1), [(x[:0], y[:0])])
        initial = running.weights()
        running.next()
        for a, b in zip(running.weights(), initial):
            np.testing.assert_array_equal(a, b)

    def test_epochs_are_refused(self):
        with pytest.raises(ValueError, match="Received: epochs=1"):
            tiny.build(self.name, LocalTraining(epochs=1))
