"""VGG-11 (Simonyan and Zisserman, 2015, arXiv:1409.1556), configuration A, for small images."""

from __future__ import annotations

import tensorflow as tf

from . import blocks
from .blocks import Block, Shape

# Channels of a convolution, and whether 2x2 pooling follows.
_CONVOLUTIONS = (
    (64, True),
    (128, True),
    (256, False),
    (256, True),
    (512, False),
    (512, True),
    (512, False),
    (512, True),
)


def create_vgg11(
    input_shape: Shape, num_classes: int, width: float = 1.0, normalization: str = "none"
) -> tf.keras.Sequential:
    """VGG-11: 3x3 convolutions 64 M 128 M 256 256 M 512 512 M 512 512 M with ReLU, then dense.

    The classifier is the form usual for CIFAR, one dense layer on the last map (1x1x512),
    instead of ImageNet's 4096-4096-classes. Pooling pads maps of odd size, so that 28x28
    inputs (Fashion-MNIST in partial averaging) come out as 1x1 too. That paper says nothing
    about the classifier or normalisation; VGG itself has none.
    """
    parts: list[Block] = [
        blocks.conv(
            f"conv{index}",
            blocks.scale(width, channels),
            3,
            pool=pool,
            normalization=normalization,
        )
        for index, (channels, pool) in enumerate(_CONVOLUTIONS, 1)
    ]
    parts.append(blocks.flatten_dense("classifier", num_classes, activation=None))
    return blocks.sequential("vgg11", input_shape, parts)
