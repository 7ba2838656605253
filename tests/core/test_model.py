"""A model's types, variables and blocks."""

import numpy as np
import pytest
import tensorflow as tf
import tensorflow_federated as tff

import models
from tests import tiny
from tff_partial.core import model as model_spec
from tff_partial.core.local_training import LocalTraining

layers = tf.keras.layers
LOCAL = LocalTraining(steps=3, batch_size=4, learning_rate=0.1, momentum=0.5)


def test_a_builder_is_called_once_until_it_is_used():
    calls = []

    def create():
        calls.append(1)
        return models.create("mlp_100", (4, 4, 1), 3, 0.1)

    spec = model_spec.ModelSpec(create, (4, 4, 1))
    assert (len(spec.variable_names), len(calls)) == (6, 1)
    assert spec.weights_type.trainable[0].shape == (16, 10)
    assert len(calls) == 1


def normalized(**given):
    def create():
        norm = layers.Normalization(name="input_norm", **given)
        return tf.keras.Sequential([norm, *tiny.create_dense(batch_norm=True).layers])

    return model_spec.ModelSpec(create, (tiny.FEATURES,))


@pytest.mark.parametrize("algo", ["fedavg", "feddc", "partial_averaging"])
def test_a_count_stays_as_the_server_has_it_and_the_rest_is_trained(algo):
    """`Normalization` has a mean, a variance and an int64 count; or, given these, nothing."""
    with_count, without = normalized(), normalized(mean=0.0, variance=1.0)
    assert [t.dtype for t in with_count.weights_type.non_trainable].count(np.int64) == 1
    found = []
    for spec in (with_count, without):
        rounds = tiny.Rounds(tiny.build(algo, LOCAL, spec), tiny.client_data())
        process, weights = rounds.process, rounds.process.get_model_weights(rounds.state)
        changed = [
            np.int64(7) if w.dtype == np.int64 else w
            for w in map(np.asarray, weights.non_trainable)
        ]
        rounds.state = process.set_model_weights(
            rounds.state, tff.learning.models.ModelWeights(list(weights.trainable), changed)
        )
        rounds.next()
        found.append(rounds.weights())
    *trained, mean, variance, count, moving_mean, moving_variance = found[0]
    assert (mean.tolist(), variance.tolist(), count) == ([0.0] * 5, [1.0] * 5, 7)
    assert np.abs(moving_mean).min() > 0
    for a, b in zip([*trained, moving_mean, moving_variance], found[1], strict=True):
        np.testing.assert_array_equal(a, b)


def test_instances_have_the_seeds_weights_and_variables_of_their_own():
    spec, other = tiny.spec(seed=1), tiny.spec(seed=2)
    first, second = spec.instantiate(), spec.instantiate()
    for a, b in zip(tiny.flat(first.weights), tiny.flat(second.weights)):
        np.testing.assert_array_equal(a, b)
    assert not np.array_equal(first.trainable[0], other.instantiate().trainable[0])
    first.trainable[0].assign_add(tf.ones([tiny.FEATURES, 4]))
    assert np.abs(first.trainable[0].numpy() - second.trainable[0].numpy()).min() > 0.9


def test_blocks_after_each_other_are_the_model():
    model = tiny.spec(batch_norm=True).instantiate()
    x = tf.constant(tiny.client_data()[0][0])
    hidden = model.forward(x, training=False, blocks=model.blocks[:2])
    halves = model.forward(hidden, training=False, blocks=model.blocks[2:])
    np.testing.assert_array_equal(halves, model.forward(x, training=False))
    kernel, bias, *_ = (v.numpy() for v in model.trainable)
    expected = np.maximum(x.numpy() @ kernel + bias, 0) / np.sqrt(1 + 1e-3)
    np.testing.assert_allclose(hidden, expected, atol=1e-6)


def test_batch_norm_uses_its_batch_inside_and_its_statistics_outside():
    model = tiny.spec(batch_norm=True).instantiate()
    x = tf.constant(tiny.client_data()[0][0])
    before = model.forward(x, training=False)
    with model.batch_statistics():
        inside = model.forward(x, training=False)
    assert not np.allclose(before, inside)
    model.statistics[0].assign([0.0] * 4), model.statistics[1].assign([1.0] * 4)
    np.testing.assert_array_equal(model.forward(x, training=False), before)
