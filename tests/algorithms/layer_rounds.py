"""Tests that algorithms share whose clients train some layers, or some channels of each layer."""

import dataclasses

import numpy as np
import pytest
import tensorflow as tf

from tests import tiny
from tests.references import layers as reference
from tff_partial.algorithms import registry
from tff_partial.core import client_data
from tff_partial.core import model as model_spec
from tff_partial.core.local_training import LocalTraining
from tff_partial.core.model import Cut

CUTS = {"strong": Cut(0), "moderate": Cut(1), "weak": Cut(2)}
LOCAL = LocalTraining(steps=4, batch_size=5, learning_rate=0.3, momentum=0.6, weight_decay=0.01)
# As in PyTorch: what is trained decays, biases too, after clipping.
TORCH = {"weight_decay": 0.2, "weight_decay_on": "all", "clip_norm": 0.3}


def create_dense():
    sizes = (6, 5, 4)
    hidden = [tf.keras.layers.Dense(n, activation="relu", name=f"fc{n}") for n in sizes]
    return tf.keras.Sequential([*hidden, tf.keras.layers.Dense(tiny.CLASSES, name="classifier")])


def spec(cuts=CUTS):
    return model_spec.ModelSpec(create_dense, (tiny.FEATURES,), seed=3, cuts=cuts)


def build(name, local=LOCAL, **params):
    algorithm = registry.ALGORITHMS[name]
    return algorithm.build(spec(), algorithm.params(local=local, **params))


def cohort(data, tiers):
    pairs = enumerate(zip(data, tiers))
    return [client_data.create_record(x, y, i, tier=tier) for i, ((x, y), tier) in pairs]


def run(built, data, tiers, rounds):
    state = built.initialize()
    for _ in range(rounds):
        state = built.next(state, cohort(data, tiers)).state
    return tiny.flat(state.global_model_weights)


class Rounds:
    """Three clients in three tiers; a test file's subclass names the algorithm.

    Attributes:
      name: The algorithm, in the registry and in the reference.
      moved: Whether each variable moves if all clients are weak.
    """

    name: str
    moved: tuple[bool, ...]

    @pytest.mark.parametrize(
        ("weighting", "sgd"),
        [
            ("uniform", {"weight_decay": 0.01}),
            ("examples", {"weight_decay": 0.01}),
            ("uniform", {"weight_decay": 0.2, "clip_norm": 0.3}),
            ("uniform", TORCH),
        ],
        ids=["uniform", "examples", "clipped", "torch"],
    )
    def test_equals_numpy_with_three_clients_in_three_tiers(self, weighting, sgd):
        data, tiers = tiny.client_data(), (0, 1, 2)
        built = build(self.name, dataclasses.replace(LOCAL, **sgd), weighting=weighting)
        initial = tiny.flat(built.initialize().global_model_weights)
        drawn = [[tiny.batches(r, t, LOCAL) for r in cohort(data, tiers)] for t in range(4)]
        expected = getattr(reference, self.name)(
            initial,
            data,
            [0, 1, 2],
            drawn,
            lr=0.3,
            momentum=0.6,
            by_examples=weighting == "examples",
            **sgd,
        )
        found = run(built, data, tiers, rounds=4)
        assert max(np.abs(a - b).max() for a, b in zip(found, initial)) > 0.1
        for a, b in zip(found, expected):
            np.testing.assert_allclose(a, b, atol=1e-5)

    def test_without_a_strong_client_what_nobody_trained_stays(self):
        built = build(self.name)
        initial = tiny.flat(built.initialize().global_model_weights)
        found = run(built, tiny.client_data(), (2, 2, 2), rounds=2)
        moved = tuple(not np.array_equal(a, b) for a, b in zip(found, initial))
        assert moved == self.moved
        self.check_weak(initial, found)

    def check_weak(self, initial, found):
        """What else holds for the weights before and after rounds of weak clients."""

    def test_a_client_without_examples_changes_nothing(self):
        x, y = tiny.client_data()[0]
        built = build(self.name)
        initial = tiny.flat(built.initialize().global_model_weights)
        for tier in range(3):
            for a, b in zip(run(built, [(x[:0], y[:0])], (tier,), rounds=1), initial):
                np.testing.assert_array_equal(a, b)
