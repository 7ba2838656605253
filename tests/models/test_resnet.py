"""Residual networks."""

from __future__ import annotations

import numpy as np
import tensorflow as tf

import models
from tests.models.convolutions import correlated, normalized
from tests.models.small import create_small


def test_resnet20_starts_as_its_shortcuts():
    for block in create_small("resnet20").layers[1:-1]:
        assert np.all(block.get_layer(f"{block.name}_norm2").gamma.numpy() == 0)
        assert np.all(block.get_layer(f"{block.name}_norm1").gamma.numpy() == 1)


def test_preact_resnet18_is_that_of_heterofls_code():
    """With stride 2, windows are centred on the positions that the shortcut picks; in NumPy."""
    model = models.create("preact_resnet18", (16, 16, 3), 10, 0.05)
    block = model.get_layer("stage2_block1")
    weights = {w.name.split(":")[0]: w.numpy() for w in block.weights}

    def kernel(name):
        return weights[f"stage2_block1_{name}/kernel"]

    x = 0.01 * np.random.default_rng(0).normal(size=(4, 16, 16, 3)).astype(np.float32)
    a = np.maximum(normalized(x, 1e-5), 0.0)
    pads = ((0, 0), (1, 1), (1, 1), (0, 0))
    y = correlated(np.pad(a, pads), kernel("conv1"), range(0, 16, 2))
    y = np.pad(np.maximum(normalized(y, 1e-5), 0.0), pads)
    y = correlated(y, kernel("conv2"), range(8)) + a[:, ::2, ::2] @ kernel("conv_shortcut")[0, 0]
    np.testing.assert_allclose(block(x, training=True), y, atol=1e-4)


def test_variables_of_a_wide_resnet_have_the_same_names_inside_a_graph():
    with tf.Graph().as_default():
        names = [w.name for w in create_small("wide_resnet16_8").weights]
    assert names == [w.name for w in create_small("wide_resnet16_8").weights]


def test_wide_resnet_has_sixteen_layers_in_three_stages_of_eightfold_width():
    model = models.create("wide_resnet16_8", (32, 32, 3), 10, 0.25)
    stages = [block for block in model.layers if block.name.startswith("stage")]
    assert [block.name for block in stages] == [
        f"stage{s}_block{b}" for s in (1, 2, 3) for b in (1, 2)
    ]
    assert [block.output_shape[1:] for block in stages[1::2]] == [
        (32, 32, 32),
        (16, 16, 64),
        (8, 8, 128),
    ]
    convolutions = [w for w in model.trainable_weights if len(w.shape) == 4]
    # One in the stem, two in each block, and a shortcut in the first block of each stage.
    assert len(convolutions) == 1 + 2 * 6 + 3
