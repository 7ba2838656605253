"""Fully connected networks. The input is flattened in the first block."""

from __future__ import annotations

import tensorflow as tf

from . import blocks
from .blocks import Shape


def create_fedpmt_fcnn(
    input_shape: Shape, num_classes: int, width: float = 1.0
) -> tf.keras.Sequential:
    """FedPMT's fully connected network: 784-400-300-200-100-10 with ReLU.

    The paper says that all its layers are followed by ReLU; the logits here are not.
    """
    parts = blocks.dense_blocks((400, 300, 200, 100), num_classes, width)
    return blocks.sequential("fedpmt_fcnn", input_shape, parts)


def create_mlp_200(input_shape: Shape, num_classes: int, width: float = 1.0) -> tf.keras.Sequential:
    """Two hidden layers of 200 with ReLU: EMNIST in FedUMF, the 2NN of McMahan et al., 2017."""
    parts = blocks.dense_blocks((200, 200), num_classes, width)
    return blocks.sequential("mlp_200", input_shape, parts)


def create_mlp_100(input_shape: Shape, num_classes: int, width: float = 1.0) -> tf.keras.Sequential:
    """Two hidden layers of 100 with ReLU: MNIST in FedUMF's appendix."""
    parts = blocks.dense_blocks((100, 100), num_classes, width)
    return blocks.sequential("mlp_100", input_shape, parts)


def create_mlp_50_24(
    input_shape: Shape, num_classes: int, width: float = 1.0
) -> tf.keras.Sequential:
    """Hidden layers of 50 and 24 with ReLU: the MLP of FedDSE's figures 2, 6, 7 and 8."""
    parts = blocks.dense_blocks((50, 24), num_classes, width)
    return blocks.sequential("mlp_50_24", input_shape, parts)


def create_softmax(input_shape: Shape, num_classes: int, width: float = 1.0) -> tf.keras.Sequential:
    """Multinomial logistic regression, one block; it has nothing that `width` could scale."""
    del width
    block = blocks.flatten_dense("classifier", num_classes, activation=None)
    return blocks.sequential("softmax", input_shape, [block])
