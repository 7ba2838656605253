"""What the builders share: widths, chains of layers as blocks, and the Sequential of blocks."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable
from typing import Any, Union

import tensorflow as tf

from models import normalization as norm

Shape = tuple[int, ...]
# A block, or a function that makes it from the shape of its input (without the batch).
Block = Union[tf.keras.layers.Layer, Callable[[Shape], tf.keras.layers.Layer]]


def scale(width: float, size: int) -> int:
    """Returns max(1, floor(width * size)), e.g. 7 for 0.45 of 16 and 29 for 0.29 of 100."""
    # 0.29 * 100 is 28.999999999999996 in floating point.
    return max(1, math.floor(width * size + 1e-9))


def sequential(
    name: str, input_shape: Shape, blocks: Iterable[Block], dtype: str = "float32"
) -> tf.keras.Sequential:
    """Returns the built Sequential whose `layers` are the blocks, in order."""
    model = tf.keras.Sequential([tf.keras.Input(input_shape, dtype=dtype)], name=name)
    for block in blocks:
        if not isinstance(block, tf.keras.layers.Layer):
            block = block(tuple(model.outputs[0].shape[1:]))
        model.add(block)
    return model


def chain(name: str, *layers: tf.keras.layers.Layer) -> Block:
    """Returns the block that applies the layers one after the other."""

    def make(shape: Shape) -> tf.keras.Sequential:
        return tf.keras.Sequential([tf.keras.Input(shape), *layers], name=name)

    return make


def apply(layers: Iterable[tf.keras.layers.Layer], x: Any) -> Any:
    """Applies the layers to the tensor `x` one after the other."""
    for layer in layers:
        x = layer(x)
    return x


def conv(
    name: str,
    filters: int,
    kernel: int,
    padding: str = "same",
    pool: bool = True,
    normalization: str = "none",
) -> Block:
    """Returns a block: convolution with bias, normalisation, ReLU and, with `pool`, 2x2 pooling.

    The pooling pads a map of odd size when the convolution does ('same').
    """
    layers = [tf.keras.layers.Conv2D(filters, kernel, padding=padding, name=f"{name}_conv")]
    layers += norm.layers(normalization, f"{name}_norm", filters)
    layers.append(tf.keras.layers.ReLU(name=f"{name}_relu"))
    if pool:
        layers.append(tf.keras.layers.MaxPooling2D(2, padding=padding, name=f"{name}_pool"))
    return chain(name, *layers)


def dense(name: str, units: int) -> Block:
    """Returns a block: a dense layer with ReLU."""
    return tf.keras.layers.Dense(units, activation="relu", name=name)


def flatten_dense(name: str, units: int, activation: str | None = "relu") -> Block:
    """Returns a block: flatten and a dense layer."""
    return chain(
        name,
        tf.keras.layers.Flatten(name=f"{name}_flatten"),
        tf.keras.layers.Dense(units, activation=activation, name=f"{name}_dense"),
    )


def classifier(num_classes: int) -> Block:
    """Returns the last block of a network with dense layers: logits."""
    return tf.keras.layers.Dense(num_classes, name="classifier")


def pooled_head(name: str, num_classes: int, *before: tf.keras.layers.Layer) -> Block:
    """Returns the last block of a convolutional network: global average pooling and logits."""
    return chain(
        name,
        *before,
        tf.keras.layers.GlobalAveragePooling2D(name=f"{name}_pool"),
        tf.keras.layers.Dense(num_classes, name=f"{name}_dense"),
    )
