"""FedNova: updates per gradient."""

import dataclasses

import numpy as np
import pytest

from tests import tiny
from tests.algorithms import stateful_rounds
from tff_partial.algorithms import fednova
from tff_partial.core.local_training import LocalTraining
from tff_partial.core.server_optimizers import ServerOptimizer


class TestRounds(stateful_rounds.Rounds):
    name = "fednova"


def weights_after(name, local, weighting, batch_norm=True):
    process = tiny.build(name, local, tiny.spec(batch_norm), weighting=weighting)
    state, _ = tiny.run(process, tiny.client_data(), rounds=3)
    return tiny.flat(process.get_model_weights(state))


@pytest.mark.parametrize("weighting", ["examples", "uniform"])
def test_equals_fedavg_where_all_clients_make_the_same_steps(weighting):
    local = LocalTraining(steps=5, batch_size=4, learning_rate=0.1, momentum=0.5)
    ours, fedavg = (weights_after(name, local, weighting) for name in ("fednova", "fedavg"))
    for a, b in zip(ours, fedavg):
        np.testing.assert_allclose(a, b, atol=1e-5)


def test_server_momentum_moves_what_no_gradient_reached_as_in_fedavg():
    """The mean update of the first column is 0 in the second round: its inputs are."""
    local = LocalTraining(steps=5, batch_size=4, learning_rate=0.1)
    first, found = tiny.client_data(), []
    second = [(x * (np.arange(tiny.FEATURES) > 0), y) for x, y in first]
    for name in ("fednova", "fedavg"):
        process = tiny.build(name, local, server=ServerOptimizer("fedavgm"))
        state, _ = tiny.run(process, first, 1)
        after, _ = tiny.run(process, [(x.astype(np.float32), y) for x, y in second], 1, state)
        found.append(tiny.flat(process.get_model_weights(after)))
        kernel = tiny.flat(process.get_model_weights(state))[0]
        assert np.abs(found[-1][0][0] - kernel[0]).min() > 0
    for a, b in zip(*found):
        np.testing.assert_allclose(a, b, atol=1e-5)


def test_differs_from_fedavg_where_they_do_not():
    local = LocalTraining(epochs=2, batch_size=4, learning_rate=0.1)
    ours, fedavg = (weights_after(name, local, "uniform") for name in ("fednova", "fedavg"))
    assert max(np.abs(a - b).max() for a, b in zip(ours, fedavg)) > 1e-3


def test_a_client_without_examples_counts_nothing():
    local = LocalTraining(epochs=2, batch_size=4, learning_rate=0.1)
    process, data = tiny.build("fednova", local, weighting="uniform"), tiny.client_data()
    empty = (data[0][0][:0], data[0][1][:0])
    with_empty, without = (
        tiny.run(process, clients, rounds=2)[0] for clients in ([*data, empty], data)
    )
    for a, b in zip(tiny.flat(with_empty), tiny.flat(without)):
        np.testing.assert_array_equal(a, b)


def test_gradients_of_another_optimizer_cannot_be_counted():
    adam = LocalTraining(epochs=1, optimizer="adam")
    with pytest.raises(ValueError, match="Received: optimizer='adam'"):
        fednova.Params(adam)
    assert dataclasses.replace(fednova.Params(), weighting="uniform").weighting == "uniform"
