"""What the models are put together from."""

from __future__ import annotations

import numpy as np
import tensorflow as tf

from models import blocks


def test_widths_round_down_without_floating_error():
    assert [blocks.scale(0.45, m) for m in (16, 32, 64)] == [7, 14, 28]
    assert [blocks.scale(0.2, m) for m in (16, 32, 64)] == [3, 6, 12]
    assert (blocks.scale(0.29, 100), blocks.scale(0.001, 16), blocks.scale(1.0, 512)) == (
        29,
        1,
        512,
    )


def test_a_chain_is_its_layers_one_after_the_other():
    layers = [tf.keras.layers.Dense(3, name="first"), tf.keras.layers.ReLU()]
    model = blocks.sequential("model", (4,), [blocks.chain("both", *layers), blocks.dense("d", 2)])
    assert [block.name for block in model.layers] == ["both", "d"]
    x = np.random.default_rng(0).normal(size=(5, 4)).astype(np.float32)
    kernel, bias = layers[0].get_weights()
    np.testing.assert_allclose(model.layers[0](x), np.maximum(x @ kernel + bias, 0), atol=1e-6)
    np.testing.assert_array_equal(model.layers[0](x), blocks.apply(layers, x))


def test_the_head_averages_the_pixels():
    model = blocks.sequential("model", (2, 2, 3), [blocks.pooled_head("head", 4)])
    x = np.random.default_rng(0).normal(size=(5, 2, 2, 3)).astype(np.float32)
    kernel, bias = model.get_weights()
    np.testing.assert_allclose(model(x), x.mean((1, 2)) @ kernel + bias, atol=1e-6)


def test_two_classes_have_two_logits():
    model = blocks.sequential("model", (3,), [blocks.classifier(2)])
    assert model.output_shape == (None, 2)
