"""Training in memory."""

import numpy as np
import pytest
import tensorflow_federated as tff

import tff_partial
from tests import tiny

pytestmark = pytest.mark.usefixtures("keep_runtime")


@pytest.mark.parametrize("algo", ["fedavg", "fedumf", "vrl_sgd"])
def test_simulate_is_the_rounds_of_a_process(algo):
    """With all clients it gives what calling the process gives."""
    local = tff_partial.LocalTraining(steps=3, batch_size=4, learning_rate=0.1)
    data = tiny.client_data()
    results = list(tff_partial.simulate(tiny.build(algo, local), data, rounds=3))
    by_hand = tiny.Rounds(tiny.build(algo, local), data)
    # The loop's cohorts are drawn in a random order, which only rounding sees.
    for result in results:
        by_hand.next()
        weights = tiny.flat(by_hand.process.get_model_weights(result.state))
        for a, b in zip(weights, by_hand.weights()):
            np.testing.assert_allclose(a, b, atol=1e-6)
        assert result.metrics["client_work"]["train_examples"] > 0


def test_simulate_draws_clients_and_knows_tiers():
    local = tff_partial.LocalTraining(steps=3, batch_size=4)
    process = tiny.build("fedpmt", local, tiers=("strong", "1"))
    *_, last = tff_partial.simulate(process, tiny.client_data(), 2, tiers=[0, 1, 1])
    assert last.metrics["client_work"]["train_accuracy_1"] >= 0
    *_, last = tff_partial.simulate(process, tiny.client_data(), 2, 1, tiers=[0, 0, 0])
    assert np.isnan(last.metrics["client_work"]["train_accuracy_1"])
    for wrong in ({"clients_per_round": 4}, {"clients_per_round": 0}, {"tiers": [0]}):
        with pytest.raises(ValueError, match="Received: "):
            tff_partial.simulate(process, tiny.client_data(), 1, **wrong)


def test_a_million_clients_are_loaded_when_they_are_drawn():
    loaded = []

    def load(client):
        loaded.append(client)
        return tiny.client_data(sizes=(5,), seed=client)[0]

    local = tff_partial.LocalTraining(steps=1, batch_size=4)
    population = tff_partial.clients(load, ids=1_000_000)
    process = tiny.build("embracing", local, tiers=("strong", "1"))
    results = tff_partial.simulate(process, population, 3, 2, tiers=lambda client, r: client % 2)
    assert len([*results]) == 3
    assert len(loaded) == len({*loaded}) == 6


def test_clients_of_tffs_with_an_own_sampler():
    data = {name: {"x": x, "y": y} for name, (x, y) in zip("abc", tiny.client_data())}
    own = tff.simulation.datasets.TestClientData(data)
    process = tiny.build("scaffold", tff_partial.LocalTraining(steps=1, batch_size=4))
    first = tff_partial.simulate(process, own, 2, sampler=lambda ids, *_: ids[:1])
    assert [[*result.kept] for result in first] == [[0], [0]]
