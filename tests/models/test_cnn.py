"""Convolutional networks."""

from __future__ import annotations

import numpy as np
import pytest

import models
from tests.models.convolutions import correlated, normalized
from tests.models.small import GRAY, IMAGE


def test_four_conv_cnn_is_that_of_heterofls_code():
    """Pooling drops the last row of 7, epsilon is 1e-5; in NumPy, from the first block's input."""
    model = models.create("four_conv_cnn", GRAY, 10, 0.05)
    assert [block.output_shape[1] for block in model.layers[:4]] == [14, 7, 3, 3]
    block = model.layers[2]
    # Of small variance, so that epsilon counts.
    x = 0.01 * np.random.default_rng(0).normal(size=(4, 7, 7, 6)).astype(np.float32)
    kernel, bias = block.layers[0].get_weights()
    padded = np.pad(x, ((0, 0), (1, 1), (1, 1), (0, 0)))
    y = np.maximum(normalized(correlated(padded, kernel, range(7)) + bias, 1e-5), 0.0)
    pooled = y[:, :6, :6].reshape(4, 3, 2, 3, 2, -1).max((2, 4))
    np.testing.assert_allclose(block(x, training=True), pooled, atol=1e-4)


def test_four_conv_cnn_needs_a_map_that_can_be_halved_three_times():
    with pytest.raises(ValueError, match=r"at least 8x8\. Received: input_shape=\(7, 9, 1\)$"):
        models.create("four_conv_cnn", (7, 9, 1), 10)


def test_vgg11_ends_in_one_value_a_channel():
    for shape in (IMAGE, GRAY):
        model = models.create("vgg11", shape, 10, 0.1)
        assert model.layers[-2].output_shape == (None, 1, 1, 51)
