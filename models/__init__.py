"""Keras models as `tf.keras.Sequential`s of named blocks, by name.

`create('resnet20', (32, 32, 3), 10)` returns a built model that maps a batch to logits. Its
`layers` are exactly its blocks, each with one input and one output tensor, so that the model
splits at block k into `layers[:k]` and `layers[k:]`. To add a model, write a file with its builder
and one entry in `ARCHITECTURES`. Importing this package does not import TensorFlow; the module of
a builder is imported when the model is created.

Create a model where it is used: Keras 2 exchanges the base classes of its layers when one is made
inside a plain `tf.Graph` (as TFF traces), and models made outside before then refuse to be called.
"""

from __future__ import annotations

import dataclasses
import importlib
import math
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import tensorflow as tf

NORMALIZATIONS = ("batch", "static", "group", "none")


@dataclasses.dataclass(frozen=True)
class Architecture:
    """What must be known of a model before it is built.

    Attributes:
      name: As in --model.
      builder: 'module:function', the module within this package. It takes (input_shape,
        num_classes, width), and `normalization` if the model is normalized.
      inputs: Kinds of examples it takes, of `image`, `feature` and `token`.
      input_shape: Shape of one example of the data that its paper uses it for.
      num_classes: Number of classes of these data.
      normalized: Whether one of `NORMALIZATIONS` can be chosen.
      cuts: Leading blocks that tiers remove, as in EmbracingFL's table 1; True: and the first half
        of the words.
      capacity_batch: Batch size at which that table counts activations; None: that of training.
    """

    name: str
    builder: str
    inputs: tuple[str, ...] = ("image",)
    input_shape: tuple[int, ...] = (32, 32, 3)
    num_classes: int = 10
    normalized: bool = False
    cuts: Mapping[str, tuple[int, bool]] = dataclasses.field(default_factory=dict)
    capacity_batch: int | None = None


_GRAY, _FLAT = (28, 28, 1), ("image", "feature")

ARCHITECTURES: Mapping[str, Architecture] = {
    architecture.name: architecture
    for architecture in (
        Architecture(
            "resnet20",
            "resnet:create_resnet20",
            normalized=True,
            cuts={"moderate": (4, False), "weak": (7, False)},
            capacity_batch=32,
        ),
        Architecture("resnet18", "resnet:create_resnet18", normalized=True),
        Architecture(
            "resnet18_imagenet",
            "resnet:create_resnet18_imagenet",
            input_shape=(224, 224, 3),
            num_classes=1000,
            normalized=True,
        ),
        Architecture("preact_resnet18", "resnet:create_preact_resnet18", normalized=True),
        Architecture(
            "wide_resnet28_10",
            "resnet:create_wide_resnet28_10",
            num_classes=100,
            normalized=True,
        ),
        Architecture("wide_resnet16_8", "resnet:create_wide_resnet16_8", normalized=True),
        Architecture("vgg11", "cnn:create_vgg11", input_shape=_GRAY, normalized=True),
        Architecture(
            "femnist_cnn",
            "cnn:create_femnist_cnn",
            input_shape=_GRAY,
            num_classes=62,
            cuts={"moderate": (2, False), "weak": (3, False)},
            capacity_batch=1,
        ),
        Architecture(
            "four_conv_cnn", "cnn:create_four_conv_cnn", input_shape=_GRAY, normalized=True
        ),
        Architecture("two_conv_cnn", "cnn:create_two_conv_cnn"),
        Architecture("fedpmt_cnn_mnist", "cnn:create_fedpmt_cnn_mnist", input_shape=_GRAY),
        Architecture("fedpmt_cnn_cifar10", "cnn:create_fedpmt_cnn_cifar10"),
        Architecture("fedpmt_fcnn", "mlp:create_fedpmt_fcnn", inputs=_FLAT, input_shape=_GRAY),
        Architecture("mlp_200", "mlp:create_mlp_200", inputs=_FLAT, input_shape=_GRAY),
        Architecture("mlp_100", "mlp:create_mlp_100", inputs=_FLAT, input_shape=_GRAY),
        Architecture("mlp_50_24", "mlp:create_mlp_50_24", inputs=_FLAT, input_shape=_GRAY),
        Architecture("softmax", "mlp:create_softmax", inputs=_FLAT, input_shape=_GRAY),
        Architecture(
            "bilstm",
            "bilstm:create_bilstm",
            inputs=("token",),
            input_shape=(256,),
            num_classes=2,
            cuts={"moderate": (1, False), "weak": (1, True)},
            capacity_batch=1,
        ),
    )
}
NAMES = tuple(ARCHITECTURES)


def architecture_of(name: str) -> Architecture:
    """Returns the declaration of a model; raises a ValueError if there is none of this name."""
    if name not in ARCHITECTURES:
        raise ValueError(f"model must be one of {sorted(NAMES)}. Received: model={name!r}")
    return ARCHITECTURES[name]


def create(
    name: str,
    input_shape: Sequence[int],
    num_classes: int,
    width: float = 1.0,
    normalization: str | None = None,
    **options: Any,
) -> tf.keras.Sequential:
    """Creates a model by name.

    Args:
      name: One of `NAMES`.
      input_shape: Shape of one example, without the batch.
      num_classes: Number of classes, at least 2; the model returns that many logits (`bilstm`
        returns one logit for two classes).
      width: Share of the channels and hidden units to keep, floor(width * m) of m.
      normalization: One of `NORMALIZATIONS` for a normalized model; None is the architecture's own.
      **options: Further arguments of the builder, such as `vocabulary` of `bilstm`.

    Returns:
      A built `tf.keras.Sequential` of named blocks.

    Raises:
      ValueError: If an argument is out of range for that model.
    """
    architecture, shape = architecture_of(name), tuple(input_shape)
    if not shape or any(size < 1 for size in shape):
        raise ValueError(f"input_shape must hold positive sizes. Received: input_shape={shape}")
    if num_classes < 2:
        raise ValueError(f"num_classes must be at least 2. Received: num_classes={num_classes}")
    if not (math.isfinite(width) and 0 < width <= 1):
        raise ValueError(f"width must be in (0, 1]. Received: width={width}")
    allowed = NORMALIZATIONS if architecture.normalized else ("none",)
    if normalization is not None and normalization not in allowed:
        raise ValueError(
            f"normalization of {name} must be one of {list(allowed)}. "
            f"Received: normalization={normalization!r}"
        )
    if normalization is not None and architecture.normalized:
        options["normalization"] = normalization
    module, function = architecture.builder.split(":")
    builder = getattr(importlib.import_module(f"{__name__}.{module}"), function)
    return builder(shape, num_classes, width=width, **options)
