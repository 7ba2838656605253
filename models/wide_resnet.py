"""Wide residual networks (Zagoruyko and Komodakis, 2016, arXiv:1605.07146).

Pre-activation blocks without dropout: 3x3x16, then n blocks each of 16k, 32k and 64k channels,
normalisation, ReLU, global average pooling and a dense layer; n = (depth - 4) / 6. Partial
averaging trains WRN-28-10 on CIFAR-100 and WRN-16-8 on SVHN.
"""

from __future__ import annotations

import tensorflow as tf

from . import resnet
from .blocks import Shape


def create_wide_resnet28_10(
    input_shape: Shape, num_classes: int, width: float = 1.0, normalization: str = "batch"
) -> tf.keras.Sequential:
    """WRN-28-10: 3x3x16, then 4 pre-activation blocks each of 160, 320 and 640 channels, dense."""
    return resnet.create_preact(
        "wide_resnet28_10", input_shape, num_classes, width, normalization, 16, (160, 320, 640), 4
    )


def create_wide_resnet16_8(
    input_shape: Shape, num_classes: int, width: float = 1.0, normalization: str = "batch"
) -> tf.keras.Sequential:
    """WRN-16-8: 3x3x16, then 2 pre-activation blocks each of 128, 256 and 512 channels, dense."""
    return resnet.create_preact(
        "wide_resnet16_8", input_shape, num_classes, width, normalization, 16, (128, 256, 512), 2
    )
