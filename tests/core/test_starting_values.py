"""Frozen layers and loaded weights: the same values in every graph, and no part of what is sent."""

import numpy as np
import pytest
import tensorflow as tf
import tensorflow_federated as tff

from tests import tiny
from tff_partial import costs
from tff_partial.core import evaluation, starting_values
from tff_partial.core.local_training import LocalTraining
from tff_partial.core.model import ModelSpec

layers = tf.keras.layers
LOCAL = LocalTraining(steps=3, batch_size=4, learning_rate=0.1, momentum=0.5)
BACKBONE = np.random.default_rng(0).normal(size=(tiny.FEATURES, 4)).astype(np.float32)
MEAN, VARIANCE = np.linspace(-1, 1, 4, dtype=np.float32), np.full(4, 2.0, np.float32)


def backbone():
    """A dense layer and a batch normalisation with weights of their own."""
    inputs = tf.keras.Input((tiny.FEATURES,))
    dense = layers.Dense(4, name="base_dense")
    norm = layers.BatchNormalization(name="base_norm")
    model = tf.keras.Model(inputs, norm(dense(inputs)), name="base")
    dense.set_weights([BACKBONE, np.zeros(4)])
    norm.set_weights([np.ones(4), np.zeros(4), MEAN, VARIANCE])
    return model


def head():
    """The layers that are trained; they start alike wherever they stand."""
    first, last = tf.keras.initializers.GlorotUniform(1), tf.keras.initializers.GlorotUniform(2)
    return [
        layers.Dense(6, "relu", kernel_initializer=first, name="hidden"),
        layers.Dense(tiny.CLASSES, kernel_initializer=last, name="classifier"),
    ]


def create(trainable=False, is_nested=False):
    base = backbone()
    base.trainable = trainable
    inputs = base.input
    x = base.output
    if is_nested:
        inputs = tf.keras.Input((tiny.FEATURES,))
        x = base(inputs, training=False)
    for layer in head():
        x = layer(x)
    return tf.keras.Model(inputs, x)


def features(x):
    """What the frozen backbone computes: its statistics, not the batch's."""
    return (x @ BACKBONE - MEAN) / np.sqrt(VARIANCE + 1e-3)


@pytest.mark.parametrize("algo", ["fedavg", "embracing", "fedpmt", "partial_averaging", "scaffold"])
def test_training_on_a_frozen_backbone_is_training_on_its_features(algo):
    has_tiers = algo in ("embracing", "fedpmt")
    frozen = ModelSpec(lambda: create(is_nested=algo == "scaffold"), (tiny.FEATURES,))
    alone = ModelSpec(lambda: tf.keras.Sequential(head()), (4,))
    data = tiny.client_data()
    found = []
    for spec, clients, cut in (
        (frozen, data, len(frozen.instantiate().blocks) - 1),
        (alone, [(features(x).astype(np.float32), y) for x, y in data], 1),
    ):
        params = {"tiers": ("strong", str(cut))} if has_tiers else {}
        process = tiny.build(algo, LOCAL, spec, **params)
        rounds = tiny.Rounds(process, clients, tiers=2 if has_tiers else 1)
        rounds.next()
        found.append([*rounds.weights(), rounds.metrics[-1]["train_loss"]])
    for a, b in zip(*found, strict=True):
        np.testing.assert_allclose(a, b, rtol=1e-4, atol=1e-5)


@pytest.fixture(scope="module")
def spec():
    return ModelSpec(create, (tiny.FEATURES,))


def test_frozen_variables_are_in_no_weights_and_no_bytes(spec):
    names = ["hidden/kernel", "hidden/bias", "classifier/kernel", "classifier/bias"]
    assert spec.variable_names == names
    numbers = 4 * 6 + 6 + 6 * 3 + 3
    cost = costs.whole(spec, 4)
    assert (cost.parameters, cost.bytes_down, cost.bytes_up) == (numbers, *[4 * numbers] * 2)


def test_a_frozen_layer_has_no_gradient_and_before_what_is_trained_no_backward_pass(spec):
    base, alone = costs.measure(spec)[0], costs.measure(ModelSpec(create_trainable, (5,)))[0]
    assert (base.name, base.forward) == (alone.name, alone.forward) == ("base_dense", 5 * 4 + 4)
    assert (base.backward, base.update, base.activations) == (0, 0, 0)

    def frozen_later():
        first, frozen, last = layers.Dense(4), layers.Dense(6, trainable=False), layers.Dense(3)
        return tf.keras.Sequential([first, frozen, last])

    between = costs.measure(ModelSpec(frozen_later, (5,)))[1]
    assert (between.error, between.backward, between.update) == (6 + 6 * 3, 6 + 6 * 3, 0)
    assert between.activations == 6


def create_trainable():
    return create(trainable=True)


@pytest.mark.parametrize("initial", [True, False])
def test_values_are_the_same_in_every_graph(spec, initial):
    expected = [BACKBONE, np.zeros(4), np.ones(4), np.zeros(4), MEAN, VARIANCE]

    @tff.tensorflow.computation
    def in_tff():
        return [v.read_value() for v in spec.instantiate(initial=initial).frozen]

    in_bfloat16 = [v.numpy() for v in spec.instantiate("bfloat16", initial).frozen]
    for values in (tff.backends.native.create_sync_local_cpp_execution_context and [], in_bfloat16):
        for value, wanted in zip(values, expected):
            np.testing.assert_allclose(value, wanted)


