"""Clients that hold single elements: thresholds, and the derivative of what is masked."""

import numpy as np
import tensorflow as tf

from tests import tiny
from tff_partial.processes import sparse_clients


def test_normalisation_is_not_masked():
    model = tiny.spec(batch_norm=True).instantiate()
    names = [v.name.split("/")[-1].split(":")[0] for v in model.trainable]
    assert names == ["kernel", "bias", "gamma", "beta", "kernel", "bias"]
    assert sparse_clients.masked(model, "global") == [[0, 1, 4, 5]]
    assert sparse_clients.masked(model, "local") == [[0, 1], [4, 5]]
    assert sparse_clients.count(tiny.spec(batch_norm=True)) == 5 * 4 + 4 + 4 * 3 + 3


def test_thresholds_leave_the_largest():
    values = [tf.constant([[-4.0, 1.0], [2.0, -3.0]]), tf.constant([0.5, 6.0])]
    thetas = sparse_clients.thresholds(values, [[0, 1]], 0.5)
    assert [float(thetas[i]) for i in range(2)] == [3.0, 3.0]
    held = sparse_clients.holds(values, thetas)
    np.testing.assert_array_equal(held[0], [[1, 0], [0, 1]])
    np.testing.assert_array_equal(held[1], [0, 1])
    of_layers = sparse_clients.thresholds(values, [[0], [1]], 0.5)
    assert [float(of_layers[i]) for i in range(2)] == [3.0, 6.0]


def test_at_rate_1_and_at_the_smallest():
    values = [tf.constant([-4.0, 1.0, 2.0])]
    assert float(sparse_clients.thresholds(values, [[0]], 1.0)[0]) == 0
    assert float(sparse_clients.thresholds(values, [[0]], 0.01)[0]) == 4  # one is left
    assert sparse_clients.holds([*values, tf.ones([2])], {0: tf.constant(2.0)})[1].shape == ()


def test_the_derivative_is_that_of_the_smoothed_mask():
    """Of w * m(|w|) with m' = 2 theta / (|w| + theta)^2, by finite differences of m."""
    w, theta, step = np.array([0.6, 1.0, 2.5]), 0.6, 1e-4

    def smooth(size):
        return 2 * size / (size + theta)

    slope = (smooth(w + step) - smooth(w - step)) / (2 * step)
    found = sparse_clients._derivative(tf.constant(w, tf.float32), tf.constant(theta))
    np.testing.assert_allclose(found, 1 + w * slope, rtol=1e-4)
    assert float(sparse_clients._derivative(tf.constant(0.5), tf.constant(theta))) == 0
    assert float(sparse_clients._derivative(tf.constant(0.0), tf.constant(0.0))) == 1
