"""FedPart: one group of layers a round."""

import functools

import numpy as np
import pytest
import tensorflow as tf

from tests import tiny
from tests.algorithms.layer_rounds import LOCAL, TORCH, build, cohort, spec
from tests.references import layers as reference
from tff_partial import costs
from tff_partial.algorithms import fedpart
from tff_partial.core import model as model_spec
from tff_partial.layers import parts

# Of a network of four layers.
PHASES = [0, 1, 1, 2, 2, 3, 3, 4, 4, 0]
SETTINGS = {"full_rounds": 1, "rounds_per_group": 2}


@pytest.mark.parametrize(
    ("weighting", "sgd"), [("examples", {"weight_decay": 0.01}), ("uniform", TORCH)]
)
def test_equals_numpy(weighting, sgd):
    data = tiny.client_data()
    local = LOCAL.__class__(**{**vars(LOCAL), **sgd})
    built = build("fedpart", local, weighting=weighting, **SETTINGS)
    state = built.initialize()
    initial, found = tiny.flat(state.global_model_weights), []
    records = cohort(data, (0, 0, 0))
    for _ in PHASES:
        state = built.next(state, records).state
        found.append(tiny.flat(state.global_model_weights))
    drawn = [[tiny.batches(r, t, LOCAL) for r in records] for t in range(len(PHASES))]
    options = {"lr": 0.3, "momentum": 0.6, "by_examples": weighting == "examples", **sgd}
    expected = reference.fedpart(initial, data, PHASES, drawn, **options)
    for a, b in zip(found[-1], expected):
        np.testing.assert_allclose(a, b, atol=1e-5)
    for t in range(1, len(PHASES)):
        moved = [not np.array_equal(a, b) for a, b in zip(found[t], found[t - 1])]
        layers = range(4) if PHASES[t] == 0 else [PHASES[t] - 1]
        assert moved == [i // 2 in layers for i in range(8)]


def create_convolutional():
    layers = tf.keras.layers
    hidden = [layers.Conv2D(2, 3), layers.BatchNormalization(), layers.ReLU(), layers.Conv2D(2, 3)]
    return tf.keras.Sequential([*hidden, layers.Flatten(), layers.Dense(3)])


@functools.cache
def convolutional():
    return model_spec.ModelSpec(create_convolutional, (6, 6, 1))


def test_all_statistics_are_averaged_in_every_round():
    x = np.random.default_rng(0).normal(size=(9, 6, 6, 1)).astype(np.float32)
    data = [(x, np.arange(9, dtype=np.int32) % 3)]
    process = tiny.build("fedpart", LOCAL, convolutional(), full_rounds=0, rounds_per_group=1)
    running = tiny.Rounds(process, data)
    for group in range(3):
        before = running.state.global_model_weights
        running.next()
        after = running.state.global_model_weights
        moved = [not np.array_equal(a, b) for a, b in zip(after.trainable, before.trainable)]
        # Kernel and bias, with what normalisation scales and shifts by; and so on.
        assert moved == [group == 0] * 4 + [group == 1] * 2 + [group == 2] * 2
        for a, b in zip(after.non_trainable, before.non_trainable):
            assert not np.array_equal(a, b)


def test_costs_are_the_mean_of_a_cycle():
    model, params = spec(), fedpart.Params(LOCAL, full_rounds=2, rounds_per_group=1)
    cost = fedpart.cost(model, params, None)
    whole, batch = costs.whole(model, 5), LOCAL.batch_size
    groups = [costs.between(model, *group, batch) for group in parts.groups(model)]
    assert sum(group.parameters for group in groups) == whole.parameters == cost.parameters
    assert cost.bytes_up == round(3 * whole.bytes_up / 6)  # two times everything, once each group
    assert cost.bytes_down == whole.bytes_down
    assert cost.backward == round((2 * whole.backward + sum(g.backward for g in groups)) / 6)
    assert cost.capacity == 1


def test_the_cycle_without_full_rounds():
    params = fedpart.Params(full_rounds=0, rounds_per_group=2)
    assert params.cycle(3) == [1, 1, 2, 2, 3, 3]
