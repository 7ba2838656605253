"""Normalisation layers."""

from __future__ import annotations

import numpy as np
import tensorflow as tf

from models import normalization


def test_static_batch_normalization():
    x = tf.random.stateless_normal((8, 4, 4, 3), (0, 1), mean=5.0, stddev=2.0)
    batch, static = (normalization.layers(kind, "n", 3)[0] for kind in ("batch", "static"))
    np.testing.assert_array_equal(batch(x, training=True), static(x, training=True))
    assert np.all(batch.moving_mean.numpy() != 0)
    assert np.all(static.moving_mean.numpy() == 0)
    assert np.all(static.moving_variance.numpy() == 1)
    mean, variance = tf.nn.moments(x, (0, 1, 2))
    static.moving_mean.assign(mean)
    static.moving_variance.assign(variance)
    expected = (x - mean) / tf.sqrt(variance + 1e-3)
    np.testing.assert_allclose(static(x, training=False), expected, atol=1e-5)


def test_groups_divide_the_channels():
    sizes = {1: 1, 2: 1, 3: 1, 7: 1, 12: 6, 14: 7, 16: 8, 28: 14, 64: 32, 512: 32}
    assert {channels: normalization.groups(channels) for channels in sizes} == sizes
