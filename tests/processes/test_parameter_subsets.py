"""Subsets of the parameters by layer and by channel."""

import functools
import math

import numpy as np
import pytest
import tensorflow as tf

import models
from tests.algorithms.averaging_rounds import LAYERS, SHAPES, owners
from tff_partial.core import model as model_spec
from tff_partial.processes import parameter_subsets

LARGE = ("vgg11", "wide_resnet28_10", "wide_resnet16_8", "resnet18", "resnet18_imagenet")


@functools.cache
def shapes_and_layers(model):
    shape = (256,) if model == "bilstm" else (32, 32, 3)
    width = 0.1 if model in LARGE else 1.0
    spec = model_spec.ModelSpec(
        lambda: models.create(model, shape, 10, width),
        shape,
        "int32" if model == "bilstm" else "float32",
    )
    return parameter_subsets.shapes_of(spec), parameter_subsets.layers_of(spec)


@pytest.mark.parametrize("partition", parameter_subsets.PARTITIONS)
@pytest.mark.parametrize("model", sorted(models.NAMES))
def test_every_parameter_is_in_one_subset_of_about_the_same_size(model, partition):
    shapes, layers = shapes_and_layers(model)
    total = sum(math.prod(s) for s in shapes)
    for tau in range(1, 65):
        owned = owners(partition, shapes, layers, tau)
        assert all(o.min() >= 0 and o.max() < tau for o in owned)
        assert all(o.shape in ((), s[-1:]) for o, s in zip(owned, shapes))
        sizes = parameter_subsets.sizes(owned, shapes, tau)
        assert sizes.sum() == total
        if partition == "layer":
            together = {(layer, int(owner)) for layer, owner in zip(layers, owned)}
            assert len(together) == len(set(layers))
            parameters = np.bincount(layers, [math.prod(s) for s in shapes])
            assert sizes.max() <= total / tau + parameters.max()
        else:
            # A piece is at most one channel more than its share.
            channel = max(math.prod(s[:-1]) for s in shapes)
            assert sizes.max() <= total / tau + len(shapes) * channel


def test_a_layer_is_what_keras_calls_one():
    """Kernel, recurrent kernel and bias of an LSTM, scale and offset of a norm."""

    def create():
        blocks = [
            tf.keras.layers.Embedding(9, 4),
            tf.keras.layers.Bidirectional(tf.keras.layers.LSTM(3)),
            tf.keras.Sequential([tf.keras.layers.Dense(5), tf.keras.layers.BatchNormalization()]),
            tf.keras.layers.Dense(2),
        ]
        return tf.keras.Sequential(blocks)

    layers = parameter_subsets.layers_of(model_spec.ModelSpec(create, (6,), "int32"))
    sizes = [layers.count(layer) for layer in sorted(set(layers))]
    assert sizes == [1, 3, 3, 2, 2, 2]


@pytest.mark.parametrize("partition", parameter_subsets.PARTITIONS)
@pytest.mark.parametrize("tau", [1, 2, 3, 7, 64])
def test_tau_selections_cover_everything_once_and_keep_the_mean(partition, tau):
    layout = parameter_subsets.Layout(SHAPES, owners(partition, SHAPES, LAYERS, tau), tau)
    rng = np.random.default_rng(tau)
    clients = rng.normal(size=(3, layout.size)).astype(np.float32)
    covered = np.zeros(layout.size)
    for subset in range(tau):
        before = clients.mean(axis=0)
        picked = np.mean([layout.select(x, subset) for x in clients], axis=0)
        clients = np.stack([layout.replace(x, subset, picked) for x in clients])
        np.testing.assert_allclose(clients.mean(axis=0), before, atol=1e-6)
        ones = tf.ones([layout.width])
        covered += layout.replace(tf.zeros([layout.size]), subset, ones).numpy()
    np.testing.assert_array_equal(covered, 1)
    assert np.abs(clients - clients.mean(axis=0)).max() < 1e-6
