"""What the builders share: widths, chains of layers as blocks, and the Sequential of blocks."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable
from typing import NamedTuple, Union

import tensorflow as tf

from . import normalization as norm

Shape = tuple[int, ...]
# A block, or a function that makes it from the shape of its input (without the batch).
Block = Union[tf.keras.layers.Layer, Callable[[Shape], tf.keras.layers.Layer]]


class Defaults(NamedTuple):
    """What layers do where a paper says nothing: what its framework's do.

    Attributes:
      epsilon: Added to the variance in a normalisation.
      kernel: Initialiser of kernels.
      pool: Padding of 2x2 pooling: a map of odd size has half a row more ('same') or less.
      centred: Whether 3x3 convolutions of stride 2 pad all sides, so that their windows are
        centred on positions 0, 2, ..., or as Keras's the end only, which are then 1, 3, ...
    """

    epsilon: float
    kernel: Union[str, dict[str, object]]
    pool: str
    centred: bool


KERAS = Defaults(1e-3, "glorot_uniform", "same", centred=False)
# Kernels are uniform within 1 / sqrt(fan_in). Biases start at 0 here all the same.
_PYTORCH_KERNEL = {"scale": 1 / 3, "mode": "fan_in", "distribution": "uniform"}
PYTORCH = Defaults(
    1e-5, {"class_name": "VarianceScaling", "config": _PYTORCH_KERNEL}, "valid", centred=True
)


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


def apply(layers: Iterable[tf.keras.layers.Layer], x: tf.Tensor) -> tf.Tensor:
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
    defaults: Defaults = KERAS,
) -> Block:
    """Returns a block: convolution with bias, normalisation, ReLU and, with `pool`, 2x2 pooling.

    The pooling pads a map of odd size when the convolution and `defaults` do ('same').
    """
    layers = [
        tf.keras.layers.Conv2D(
            filters,
            kernel,
            padding=padding,
            kernel_initializer=defaults.kernel,
            name=f"{name}_conv",
        )
    ]
    layers += norm.layers(normalization, f"{name}_norm", filters, epsilon=defaults.epsilon)
    layers.append(tf.keras.layers.ReLU(name=f"{name}_relu"))
    if pool:
        pads = "same" if padding == defaults.pool == "same" else "valid"
        layers.append(tf.keras.layers.MaxPooling2D(2, padding=pads, name=f"{name}_pool"))
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


def dense_blocks(units: Iterable[int], num_classes: int, width: float) -> list[Block]:
    """Returns the blocks fc1 (which flattens), fc2, ..., classifier."""
    first, *rest = (scale(width, size) for size in units)
    hidden = [dense(f"fc{index}", size) for index, size in enumerate(rest, 2)]
    return [flatten_dense("fc1", first), *hidden, classifier(num_classes)]


def pooled_head(
    name: str, num_classes: int, *before: tf.keras.layers.Layer, defaults: Defaults = KERAS
) -> Block:
    """Returns the last block of a convolutional network: global average pooling and logits."""
    return chain(
        name,
        *before,
        tf.keras.layers.GlobalAveragePooling2D(name=f"{name}_pool"),
        tf.keras.layers.Dense(
            num_classes, kernel_initializer=defaults.kernel, name=f"{name}_dense"
        ),
    )
