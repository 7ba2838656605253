"""Keras models as `tf.keras.Sequential`s of named blocks, by name.

`create('resnet20', (32, 32, 3), 10)` returns a built model that maps a batch to logits. Its
`layers` are exactly its blocks, each with one input and one output tensor, so that the model
splits at block k into `layers[:k]` and `layers[k:]`. Importing this package does not import
TensorFlow; the module of a builder is imported when the model is created.

Create a model where it is used: Keras 2 exchanges the base classes of its layers when one is made
inside a plain `tf.Graph` (as TFF traces), and models made outside before then refuse to be called.
"""

from __future__ import annotations

import importlib
import math
from collections.abc import Sequence
from typing import Any

BUILDERS = {
    "resnet20": "models.resnet:create_resnet20",
    "resnet18": "models.resnet:create_resnet18",
    "preact_resnet18": "models.resnet:create_preact_resnet18",
    "wide_resnet28_10": "models.wide_resnet:create_wide_resnet28_10",
    "wide_resnet16_8": "models.wide_resnet:create_wide_resnet16_8",
    "vgg11": "models.vgg:create_vgg11",
    "femnist_cnn": "models.cnn:create_femnist_cnn",
    "four_conv_cnn": "models.cnn:create_four_conv_cnn",
    "two_conv_cnn": "models.cnn:create_two_conv_cnn",
    "fedpmt_cnn_mnist": "models.cnn:create_fedpmt_cnn_mnist",
    "fedpmt_cnn_cifar10": "models.cnn:create_fedpmt_cnn_cifar10",
    "fedpmt_fcnn": "models.mlp:create_fedpmt_fcnn",
    "mlp_200": "models.mlp:create_mlp_200",
    "mlp_100": "models.mlp:create_mlp_100",
    "softmax": "models.mlp:create_softmax",
    "bilstm": "models.bilstm:create_bilstm",
}
NAMES = tuple(BUILDERS)

# Leading blocks that the tiers of EmbracingFL's table 1 remove (True: and the first half of the
# words), and the batch size at which the table counts activations.
TIERS = {
    "resnet20": ({"moderate": (4, False), "weak": (7, False)}, 32),
    "femnist_cnn": ({"moderate": (2, False), "weak": (3, False)}, 1),
    "bilstm": ({"moderate": (1, False), "weak": (1, True)}, 1),
}

NORMALIZATIONS = ("batch", "static", "group", "none")
NORMALIZED = (
    "resnet20",
    "resnet18",
    "preact_resnet18",
    "wide_resnet28_10",
    "wide_resnet16_8",
    "vgg11",
    "four_conv_cnn",
)


def create(
    name: str,
    input_shape: Sequence[int],
    num_classes: int,
    width: float = 1.0,
    normalization: str | None = None,
    **options: Any,
) -> Any:
    """Creates a model by name.

    Args:
      name: one of `NAMES`.
      input_shape: shape of one example, without the batch.
      num_classes: number of classes, at least 2; the model returns that many logits (`bilstm`
        returns one logit for two classes).
      width: share of the channels and hidden units to keep, floor(width * m) of m.
      normalization: one of `NORMALIZATIONS` for the models in `NORMALIZED`; None is the
        architecture's own.
      **options: further arguments of the builder, e.g. `vocabulary` of `bilstm`.

    Returns:
      A built `tf.keras.Sequential` of named blocks.

    Raises:
      ValueError: if an argument is out of range for that model.
    """
    _validate(name, input_shape, num_classes, width, normalization)
    if normalization is not None and name in NORMALIZED:
        options["normalization"] = normalization
    module, function = BUILDERS[name].split(":")
    builder = getattr(importlib.import_module(module), function)
    return builder(tuple(input_shape), num_classes, width=width, **options)


def _validate(
    name: str,
    input_shape: Sequence[int],
    num_classes: int,
    width: float,
    normalization: str | None,
) -> None:
    if name not in BUILDERS:
        raise ValueError(f"model must be one of {sorted(NAMES)}. Received: model={name!r}")
    if not input_shape or any(size < 1 for size in input_shape):
        raise ValueError(
            f"input_shape must hold positive sizes. Received: input_shape={tuple(input_shape)}"
        )
    if num_classes < 2:
        raise ValueError(f"num_classes must be at least 2. Received: num_classes={num_classes}")
    if not (math.isfinite(width) and 0 < width <= 1):
        raise ValueError(f"width must be in (0, 1]. Received: width={width}")
    allowed = NORMALIZATIONS if name in NORMALIZED else ("none",)
    if normalization is not None and normalization not in allowed:
        raise ValueError(
            f"normalization of {name} must be one of {list(allowed)}. "
            f"Received: normalization={normalization!r}"
        )
