"""The convolutional networks of the papers. ReLU follows every hidden layer."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import tensorflow as tf

from . import blocks
from .blocks import Block, Shape


def create_femnist_cnn(
    input_shape: Shape, num_classes: int, width: float = 1.0
) -> tf.keras.Sequential:
    """FEMNIST's CNN: 5x5x32, pooling, 5x5x64, pooling, dense 2048, dense; 'same' padding.

    LEAF (Caldas et al., 2018, arXiv:1812.01097), as EmbracingFL and partial averaging use it.
    """
    parts = [
        *_convolutions((32, 64), width, 5),
        blocks.flatten_dense("dense", blocks.scale(width, 2048)),
        blocks.classifier(num_classes),
    ]
    return blocks.sequential("femnist_cnn", input_shape, parts)


def create_four_conv_cnn(
    input_shape: Shape, num_classes: int, width: float = 1.0, normalization: str = "batch"
) -> tf.keras.Sequential:
    """FedDSE's CNN: 3x3 convolutions 64 M 128 M 256 M 512, global average pooling, dense.

    As in HeteroFL's code (Diao et al., 2021, arXiv:2010.01264): convolution with bias,
    normalisation, ReLU, pooling without padding (a map of 7x7 becomes 3x3), and PyTorch's epsilon
    (1e-5) and initial kernels. There, normalisation is `static`.
    """
    if min(input_shape[:2]) < 8:
        raise ValueError(
            "input_shape of four_conv_cnn must be at least 8x8. "
            f"Received: input_shape={tuple(input_shape)}"
        )
    options = {"normalization": normalization, "defaults": blocks.PYTORCH}
    parts = [
        *_convolutions((64, 128, 256, 512), width, 3, unpooled=(4,), **options),
        blocks.pooled_head("head", num_classes, defaults=blocks.PYTORCH),
    ]
    return blocks.sequential("four_conv_cnn", input_shape, parts)


def create_vgg11(
    input_shape: Shape, num_classes: int, width: float = 1.0, normalization: str = "none"
) -> tf.keras.Sequential:
    """VGG-11: 3x3 convolutions 64 M 128 M 256 256 M 512 512 M 512 512 M with ReLU, then dense.

    Configuration A of Simonyan and Zisserman, 2015, arXiv:1409.1556. The classifier is the form
    usual for CIFAR, one dense layer on the last map (1x1x512), instead of ImageNet's
    4096-4096-classes. Pooling pads maps of odd size, so that 28x28 inputs (Fashion-MNIST in
    partial averaging) come out as 1x1 too. That paper says nothing about the classifier or
    normalisation; VGG itself has none.
    """
    channels = (64, 128, 256, 256, 512, 512, 512, 512)
    parts = [
        *_convolutions(channels, width, 3, unpooled=(3, 5, 7), normalization=normalization),
        blocks.flatten_dense("classifier", num_classes, activation=None),
    ]
    return blocks.sequential("vgg11", input_shape, parts)


def create_two_conv_cnn(
    input_shape: Shape, num_classes: int, width: float = 1.0
) -> tf.keras.Sequential:
    """FedUMF's CNN for CIFAR: 5x5x64, pooling, 5x5x64, pooling, dense 384, 192, classes.

    FedUMF gives kernels and dense sizes; 64 channels without padding are those of FedDC
    (Gao et al., 2022, arXiv:2203.11751), whose set-up it follows.
    """
    parts = _two_convolutions((64, 64), (384, 192), num_classes, width)
    return blocks.sequential("two_conv_cnn", input_shape, parts)


def create_fedpmt_cnn_mnist(
    input_shape: Shape, num_classes: int, width: float = 1.0
) -> tf.keras.Sequential:
    """FedPMT's CNN for MNIST: 5x5x8, pooling, 5x5x16, pooling, dense 128, classes; no padding."""
    parts = _two_convolutions((8, 16), (128,), num_classes, width)
    return blocks.sequential("fedpmt_cnn_mnist", input_shape, parts)


def create_fedpmt_cnn_cifar10(
    input_shape: Shape, num_classes: int, width: float = 1.0
) -> tf.keras.Sequential:
    """FedPMT's CNN for CIFAR-10: 5x5x16, pooling, 5x5x32, pooling, dense 500, 300, classes."""
    parts = _two_convolutions((16, 32), (500, 300), num_classes, width)
    return blocks.sequential("fedpmt_cnn_cifar10", input_shape, parts)


def _two_convolutions(
    channels: tuple[int, int], units: Sequence[int], num_classes: int, width: float
) -> list[Block]:
    """Returns blocks conv1, conv2 (5x5 without padding, ReLU, pooling), fc1, ..., classifier."""
    return [
        *_convolutions(channels, width, 5, padding="valid"),
        *blocks.dense_blocks(units, num_classes, width),
    ]


def _convolutions(
    channels: Sequence[int], width: float, kernel: int, unpooled: Sequence[int] = (), **options: Any
) -> list[Block]:
    """Returns blocks conv1, conv2, ...; 2x2 pooling follows all but those numbered `unpooled`."""
    return [
        blocks.conv(
            f"conv{i}", blocks.scale(width, size), kernel, pool=i not in unpooled, **options
        )
        for i, size in enumerate(channels, 1)
    ]
