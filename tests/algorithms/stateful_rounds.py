"""Tests that algorithms share which correct the clients' updates, against a NumPy reference."""

import numpy as np
import pytest

from tests import tiny
from tests.references import stateful as reference
from tff_partial import costs, tiers
from tff_partial.algorithms import registry
from tff_partial.core.local_training import LocalTraining

# Partial participation; the second client is selected twice in a row, the third comes back.
SELECTED = [[0], [1, 2], [1], [0, 2], [2, 1]]
RATE = "0.4*0.8,3:0.2"
RATES = [0.4, 0.4 * 0.8, 0.4 * 0.64, 0.2, 0.2 * 0.8]
PARAMS = {
    "fedprox": {"mu": 0.3},
    "fednova": {},
    "scaffold": {},
    "feddyn": {"alpha": 0.2},
    "feddc": {"alpha": 0.2},
    "fedumf": {"alpha": 0.7},
    "fedumf_feddc": {"fusion": 0.7, "alpha": 0.2},
}
PLAIN = {"momentum": 0.0, "weight_decay": 0.0, "weight_decay_on": "kernels", "clip_norm": None}
ALL_ON = {"momentum": 0.5, "weight_decay": 0.02, "weight_decay_on": "kernels", "clip_norm": 0.8}
TORCH = {**ALL_ON, "weight_decay": 0.3, "weight_decay_on": "all"}


def local(**changes):
    settings = {"epochs": 2, "batch_size": 5, "learning_rate": RATE, **ALL_ON}
    return LocalTraining(**{**settings, **changes})


def expected(name, initial, data, training, **params):
    cohort = tiny.cohort(data)
    rounds = [
        {
            "selected": selected,
            "learning_rate": RATES[t],
            "batches": [tiny.batches(record, t, training) for record in cohort],
        }
        for t, selected in enumerate(SELECTED)
    ]
    sgd = {name: getattr(training, name) for name in PLAIN}
    found = getattr(reference, name)(initial, data, rounds, **sgd, **params)
    return [model if isinstance(model, tuple) else (model, None) for model in found]


class Rounds:
    """Partial participation with changing rates; a test file's subclass names the algorithm.

    Attributes:
      name: The algorithm, in the registry and in the reference.
      vectors: How many vectors of the model's size a client sends and receives.
    """

    name: str
    vectors = 1

    @pytest.mark.parametrize("sgd", [PLAIN, ALL_ON, TORCH], ids=["plain", "all on", "torch"])
    def test_equals_numpy_with_partial_participation_and_changing_rates(self, sgd):
        data, params = tiny.client_data(), PARAMS[self.name]
        process = tiny.build(self.name, local(**sgd), weighting="uniform", **params)
        running = tiny.Rounds(process, data)
        initial = running.weights()
        wanted = expected(self.name, initial, data, local(**sgd), **params)
        upcoming = [*SELECTED[1:], []]
        for t, selected in enumerate(SELECTED):
            others = []
            if "population" in registry.ALGORITHMS[self.name].needs:
                others = process.unselected(selected, upcoming[t], range(3))
            running.next(selected, others)
            server, all_clients = wanted[t]
            for a, b in zip(running.weights(), server):
                np.testing.assert_allclose(a, b, atol=1e-5)
            if all_clients is not None:
                found = tiny.flat(process.other_models["all_clients"](running.state))
                for a, b in zip(found, all_clients):
                    np.testing.assert_allclose(a, b, atol=1e-5)
        assert max(np.abs(a - b).max() for a, b in zip(running.weights(), initial)) > 0.1

    def test_variates_are_counted_in_the_bytes(self):
        model, entry = tiny.spec(), registry.ALGORITHMS[self.name]
        plain = costs.whole(model, 5)
        cost = entry.cost(model, entry.params(local=local()), tiers.create("strong"))
        assert cost.bytes_up == cost.bytes_down == self.vectors * plain.bytes_up
        assert (cost == plain) == (self.vectors == 1)


def check_variates_do_not_grow_with_momentum(name):
    """With a displacement over K eta taken for a gradient they do, and the loss with them."""
    data = tiny.client_data((12, 7, 20))
    data = [(x, np.full_like(y, i)) for i, (x, y) in enumerate(data)]  # a class each
    local = LocalTraining(steps=10, batch_size=6, learning_rate=0.1, momentum=0.9)
    running = tiny.Rounds(tiny.build(name, local, population=3), data)
    for _ in range(25):
        running.next()
    assert float(running.metrics[-1]["train_loss"]) < np.log(3)  # that of guessing
    assert max(np.abs(w).max() for w in running.weights()) < 20
