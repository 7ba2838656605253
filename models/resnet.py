"""Residual networks for small images.

ResNet: He et al., 2016, arXiv:1512.03385. Pre-activation: He et al., 2016, arXiv:1603.05027.
Wide ones, without dropout: Zagoruyko and Komodakis, 2016, arXiv:1605.07146; partial averaging
trains WRN-28-10 on CIFAR-100 and WRN-16-8 on SVHN. Convolutions have no bias where a normalisation
follows. Which blocks have a 1x1 convolution on the shortcut is decided at full width, so that a
narrow model has the variables of the full one.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import tensorflow as tf

from . import blocks
from . import normalization as norm
from .blocks import KERAS, PYTORCH, Block, Defaults, Shape


def conv2d(
    name: str,
    filters: int,
    kernel: int,
    stride: int,
    normalization: str,
    defaults: Defaults = KERAS,
    padding: str = "same",
) -> tf.keras.layers.Layer:
    """Returns a convolution, with a bias only if nothing is normalised."""
    return tf.keras.layers.Conv2D(
        filters,
        kernel,
        strides=stride,
        padding=padding,
        use_bias=normalization == "none",
        kernel_initializer=defaults.kernel,
        name=name,
    )


def strided_conv(
    name: str, filters: int, stride: int, normalization: str, defaults: Defaults, x: tf.Tensor
) -> tf.Tensor:
    """A 3x3 convolution that pads as `defaults` say if it has a stride."""
    if stride == 1 or not defaults.centred:
        return conv2d(name, filters, 3, stride, normalization, defaults)(x)
    x = tf.keras.layers.ZeroPadding2D(1, name=f"{name}_pad")(x)
    return conv2d(name, filters, 3, stride, normalization, defaults, padding="valid")(x)


def projection_conv(
    name: str,
    filters: int,
    stride: int,
    normalization: str,
    x: tf.Tensor,
    defaults: Defaults = KERAS,
) -> tf.Tensor:
    """A 1x1 convolution of every `stride`-th position.

    Not a convolution with a stride: for few channels and with one thread, the gradient of that one
    overwrites memory in TensorFlow 2.14's oneDNN. The result is the same, and faster.
    """
    if stride > 1:
        pick = tf.keras.layers.AveragePooling2D(1, stride, padding="same", name=f"{name}_pick")
        x = pick(x)
    return conv2d(name, filters, 1, 1, normalization, defaults)(x)


def residual(
    name: str, filters: int, stride: int, projection: bool, normalization: str, gamma: str
) -> Block:
    """Returns relu(shortcut(x) + norm(conv(relu(norm(conv(x)))))).

    `gamma` initialises the scale of the second normalisation; with 'zeros' the block starts as
    its shortcut.
    """

    def conv(suffix: str, x: tf.Tensor, stride: int = 1) -> tf.Tensor:
        return conv2d(f"{name}_conv{suffix}", filters, 3, stride, normalization)(x)

    def normalized(suffix: str, x: tf.Tensor, gamma: str = "ones") -> tf.Tensor:
        return blocks.apply(norm.layers(normalization, f"{name}_norm{suffix}", filters, gamma), x)

    def make(shape: Shape) -> tf.keras.Model:
        x = tf.keras.Input(shape)
        y = normalized("1", conv("1", x, stride))
        y = tf.keras.layers.ReLU(name=f"{name}_relu1")(y)
        y = normalized("2", conv("2", y), gamma)
        shortcut = x
        if projection:
            shortcut = projection_conv(f"{name}_conv_shortcut", filters, stride, normalization, x)
            shortcut = normalized("_shortcut", shortcut)
        y = tf.keras.layers.Add(name=f"{name}_add")([y, shortcut])
        return tf.keras.Model(x, tf.keras.layers.ReLU(name=f"{name}_relu2")(y), name=name)

    return make


def preact_residual(
    name: str,
    filters: int,
    stride: int,
    projection: bool,
    normalization: str,
    defaults: Defaults = KERAS,
) -> Block:
    """Returns shortcut + conv(relu(norm(conv(a)))) with a = relu(norm(x)).

    The shortcut is x, or with `projection` a 1x1 convolution of a.
    """

    def norm_relu(index: int, x: tf.Tensor) -> tf.Tensor:
        x = blocks.apply(
            norm.layers(
                normalization, f"{name}_norm{index}", x.shape[-1], epsilon=defaults.epsilon
            ),
            x,
        )
        return tf.keras.layers.ReLU(name=f"{name}_relu{index}")(x)

    def make(shape: Shape) -> tf.keras.Model:
        x = shortcut = tf.keras.Input(shape)
        a = norm_relu(1, x)
        y = strided_conv(f"{name}_conv1", filters, stride, normalization, defaults, a)
        y = conv2d(f"{name}_conv2", filters, 3, 1, normalization, defaults)(norm_relu(2, y))
        if projection:
            shortcut = projection_conv(
                f"{name}_conv_shortcut", filters, stride, normalization, a, defaults
            )
        return tf.keras.Model(x, tf.keras.layers.Add(name=f"{name}_add")([y, shortcut]), name=name)

    return make


def stem(filters: int, normalization: str) -> Block:
    """Returns a 3x3 convolution, normalisation and ReLU."""
    return blocks.chain(
        "stem",
        conv2d("stem_conv", filters, 3, 1, normalization),
        *norm.layers(normalization, "stem_norm", filters),
        tf.keras.layers.ReLU(name="stem_relu"),
    )


def stages(channels: Sequence[int], depth: int) -> Iterator[tuple[str, int, int, bool]]:
    """Yields name, channels and stride of each block, and whether it is the first of its stage.

    The first block of every stage but the first halves the map.
    """
    for stage, size in enumerate(channels, 1):
        for index in range(1, depth + 1):
            stride = 2 if index == 1 and stage > 1 else 1
            yield f"stage{stage}_block{index}", size, stride, index == 1


def create_resnet20(
    input_shape: Shape, num_classes: int, width: float = 1.0, normalization: str = "batch"
) -> tf.keras.Sequential:
    """ResNet-20: 3x3x16, then 3 residual blocks each of 16, 32 and 64 channels, pooling, dense.

    As EmbracingFL's parameter counts imply it: a 1x1 convolution with normalisation on the
    shortcut of the first block of every stage, the first stage included. The second
    normalisation of a block starts with gamma 0.
    """
    parts = [stem(blocks.scale(width, 16), normalization)]
    for name, size, stride, is_first in stages((16, 32, 64), 3):
        filters = blocks.scale(width, size)
        parts.append(residual(name, filters, stride, is_first, normalization, gamma="zeros"))
    parts.append(blocks.pooled_head("head", num_classes))
    return blocks.sequential("resnet20", input_shape, parts)


def create_resnet18(
    input_shape: Shape, num_classes: int, width: float = 1.0, normalization: str = "batch"
) -> tf.keras.Sequential:
    """ResNet-18 for CIFAR (FedUMF): 3x3x64, 2 residual blocks each of 64, 128, 256, 512, dense.

    The stem has stride 1 and no pooling. The shortcut is the identity in the first stage and
    a 1x1 convolution with normalisation in the first block of the others.
    """
    parts = [stem(blocks.scale(width, 64), normalization), *plain_stages(width, normalization)]
    parts.append(blocks.pooled_head("head", num_classes))
    return blocks.sequential("resnet18", input_shape, parts)


def imagenet_stem(filters: int, normalization: str) -> Block:
    """Returns a 7x7 convolution with stride 2, normalisation, ReLU and 3x3 pooling with stride 2.

    Padded as in PyTorch.
    """
    conv = tf.keras.layers.Conv2D(
        filters, 7, strides=2, use_bias=normalization == "none", name="stem_conv"
    )
    return blocks.chain(
        "stem",
        tf.keras.layers.ZeroPadding2D(3, name="stem_pad"),
        conv,
        *norm.layers(normalization, "stem_norm", filters),
        tf.keras.layers.ReLU(name="stem_relu"),
        tf.keras.layers.ZeroPadding2D(1, name="stem_pool_pad"),
        tf.keras.layers.MaxPooling2D(3, 2, name="stem_pool"),
    )


def create_resnet18_imagenet(
    input_shape: Shape, num_classes: int, width: float = 1.0, normalization: str = "batch"
) -> tf.keras.Sequential:
    """ResNet-18 for ImageNet (FedDSE's table 7): as `resnet18`, with a stem that quarters images.

    11,689,512 parameters for 1,000 classes.
    """
    parts = [
        imagenet_stem(blocks.scale(width, 64), normalization),
        *plain_stages(width, normalization),
    ]
    parts.append(blocks.pooled_head("head", num_classes))
    return blocks.sequential("resnet18_imagenet", input_shape, parts)


def plain_stages(width: float, normalization: str) -> list[Block]:
    """Returns the residual blocks of ResNet-18."""
    return [
        residual(name, blocks.scale(width, size), stride, stride == 2, normalization, gamma="ones")
        for name, size, stride, _ in stages((64, 128, 256, 512), 2)
    ]


def create_preact_resnet18(
    input_shape: Shape, num_classes: int, width: float = 1.0, normalization: str = "batch"
) -> tf.keras.Sequential:
    """Pre-activation ResNet-18 (FedDSE, HeteroFL): 3x3x64, 2 blocks each of 64 to 512, dense.

    As in HeteroFL's code: a stem with stride 1, a final normalisation and ReLU in the head, and
    PyTorch's epsilon (1e-5), padding and initial kernels. There, normalisation is `static`.
    """
    layout = (64, (64, 128, 256, 512), 2)
    parts = preact_parts(num_classes, width, normalization, *layout, PYTORCH)
    return blocks.sequential("preact_resnet18", input_shape, parts)


def create_wide_resnet28_10(
    input_shape: Shape, num_classes: int, width: float = 1.0, normalization: str = "batch"
) -> tf.keras.Sequential:
    """WRN-28-10: 3x3x16, then 4 pre-activation blocks each of 160, 320 and 640 channels, dense."""
    parts = preact_parts(num_classes, width, normalization, 16, (160, 320, 640), 4)
    return blocks.sequential("wide_resnet28_10", input_shape, parts)


def create_wide_resnet16_8(
    input_shape: Shape, num_classes: int, width: float = 1.0, normalization: str = "batch"
) -> tf.keras.Sequential:
    """WRN-16-8: 3x3x16, then 2 pre-activation blocks each of 128, 256 and 512 channels, dense."""
    parts = preact_parts(num_classes, width, normalization, 16, (128, 256, 512), 2)
    return blocks.sequential("wide_resnet16_8", input_shape, parts)


def preact_parts(
    num_classes: int,
    width: float,
    normalization: str,
    stem_channels: int,
    channels: tuple[int, ...],
    depth: int,
    defaults: Defaults = KERAS,
) -> list[Block]:
    """Returns the blocks of a pre-activation network, `depth` of them in each stage.

    The first of a stage has a 1x1 convolution on its shortcut, unless the first stage has as many
    channels as the stem.
    """
    first = conv2d("stem", blocks.scale(width, stem_channels), 3, 1, normalization, defaults)
    parts: list[Block] = [first]
    for name, size, stride, is_first in stages(channels, depth):
        filters = blocks.scale(width, size)
        projection = stride == 2 or (is_first and size != stem_channels)
        parts.append(preact_residual(name, filters, stride, projection, normalization, defaults))
    last = norm.layers(normalization, "head_norm", filters, epsilon=defaults.epsilon)
    relu = tf.keras.layers.ReLU(name="head_relu")
    return [*parts, blocks.pooled_head("head", num_classes, *last, relu, defaults=defaults)]
