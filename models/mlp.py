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
    return _mlp("fedpmt_fcnn", input_shape, num_classes, width, (400, 300, 200, 100))


def create_mlp_200(input_shape: Shape, num_classes: int, width: float = 1.0) -> tf.keras.Sequential:
    """Two hidden layers of 200 with ReLU: EMNIST in FedUMF, the 2NN of McMahan et al., 2017."""
    return _mlp("mlp_200", input_shape, num_classes, width, (200, 200))


def create_mlp_100(input_shape: Shape, num_classes: int, width: float = 1.0) -> tf.keras.Sequential:
    """Two hidden layers of 100 with ReLU: MNIST in FedUMF's appendix."""
    return _mlp("mlp_100", input_shape, num_classes, width, (100, 100))


def create_softmax(input_shape: Shape, num_classes: int, width: float = 1.0) -> tf.keras.Sequential:
    """Multinomial logistic regression, one block; it has nothing that `width` could scale."""
    del width
    block = blocks.flatten_dense("classifier", num_classes, activation=None)
    return blocks.sequential("softmax", input_shape, [block])


def _mlp(
    name: str, input_shape: Shape, num_classes: int, width: float, units: tuple[int, ...]
) -> tf.keras.Sequential:
    """Returns blocks fc1 (with the flatten), fc2, ..., classifier."""
    first, *rest = (blocks.scale(width, size) for size in units)
    parts = [blocks.flatten_dense("fc1", first)]
    parts += [blocks.dense(f"fc{index}", size) for index, size in enumerate(rest, 2)]
    parts.append(blocks.classifier(num_classes))
    return blocks.sequential(name, input_shape, parts)
