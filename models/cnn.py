"""The small convolutional networks of the papers. ReLU follows every hidden layer."""

from __future__ import annotations

import tensorflow as tf

from . import blocks
from .blocks import Shape


def create_femnist_cnn(
    input_shape: Shape, num_classes: int, width: float = 1.0
) -> tf.keras.Sequential:
    """FEMNIST's CNN: 5x5x32, pooling, 5x5x64, pooling, dense 2048, dense; 'same' padding.

    LEAF (Caldas et al., 2018, arXiv:1812.01097), as EmbracingFL and partial averaging use it.
    """
    parts = [
        blocks.conv("conv1", blocks.scale(width, 32), 5),
        blocks.conv("conv2", blocks.scale(width, 64), 5),
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
    parts = [
        blocks.conv(
            f"conv{index}",
            blocks.scale(width, channels),
            3,
            pool=index < 4,
            normalization=normalization,
            defaults=blocks.PYTORCH,
        )
        for index, channels in enumerate((64, 128, 256, 512), 1)
    ]
    parts.append(blocks.pooled_head("head", num_classes, defaults=blocks.PYTORCH))
    return blocks.sequential("four_conv_cnn", input_shape, parts)


def create_two_conv_cnn(
    input_shape: Shape, num_classes: int, width: float = 1.0
) -> tf.keras.Sequential:
    """FedUMF's CNN for CIFAR: 5x5x64, pooling, 5x5x64, pooling, dense 384, 192, classes.

    FedUMF gives kernels and dense sizes; 64 channels without padding are those of FedDC
    (Gao et al., 2022, arXiv:2203.11751), whose set-up it follows.
    """
    return _two_convolutions("two_conv_cnn", input_shape, num_classes, width, (64, 64), (384, 192))


def create_fedpmt_cnn_mnist(
    input_shape: Shape, num_classes: int, width: float = 1.0
) -> tf.keras.Sequential:
    """FedPMT's CNN for MNIST: 5x5x8, pooling, 5x5x16, pooling, dense 128, classes; no padding."""
    return _two_convolutions("fedpmt_cnn_mnist", input_shape, num_classes, width, (8, 16), (128,))


def create_fedpmt_cnn_cifar10(
    input_shape: Shape, num_classes: int, width: float = 1.0
) -> tf.keras.Sequential:
    """FedPMT's CNN for CIFAR-10: 5x5x16, pooling, 5x5x32, pooling, dense 500, 300, classes."""
    return _two_convolutions(
        "fedpmt_cnn_cifar10", input_shape, num_classes, width, (16, 32), (500, 300)
    )


def _two_convolutions(
    name: str,
    input_shape: Shape,
    num_classes: int,
    width: float,
    channels: tuple[int, int],
    units: tuple[int, ...],
) -> tf.keras.Sequential:
    """Returns blocks conv1, conv2 (5x5 without padding, ReLU, pooling), fc1, ..., classifier."""
    parts = [
        blocks.conv(f"conv{index}", blocks.scale(width, size), 5, padding="valid")
        for index, size in enumerate(channels, 1)
    ]
    first, *rest = (blocks.scale(width, size) for size in units)
    parts.append(blocks.flatten_dense("fc1", first))
    parts += [blocks.dense(f"fc{index}", size) for index, size in enumerate(rest, 2)]
    parts.append(blocks.classifier(num_classes))
    return blocks.sequential(name, input_shape, parts)
