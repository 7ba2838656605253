"""Models of a user's: a function that creates one, or a `ModelSpec`."""

from __future__ import annotations

import dataclasses
import inspect
from collections.abc import Mapping
from typing import Any, Callable, Optional

from tff_partial.core import own_code
from tff_partial.core.lazy import tf
from tff_partial.core.model import ModelSpec
from tff_partial.core.types import KerasModel
from tff_partial.experiments.bundled import models

# What a function that creates a model may ask for.
_ASKED = ("input_shape", "num_classes", "width", "normalization")


def architecture_of(name: str) -> models.Architecture:
    """Return the declaration of a user's model by its name; it takes any input."""
    normalized = "normalization" in _parameters(own_code.load("model", name))
    kinds = ("image", "feature", "token")
    return models.Architecture(name, name, inputs=kinds, normalized=normalized)


def create_model(
    name: str,
    input_shape: tuple[int, ...],
    num_classes: int,
    width: float,
    normalization: Optional[str],
    input_dtype: str,
    **options: Any,
) -> ModelSpec:
    """Return the spec of a user's model: of a `ModelSpec`, or of a function that creates it.

    What a `ModelSpec` leaves open comes from the task; `options` are arguments of `ModelSpec`.

    Raises:
      ValueError: If it does not fit the data, or cannot have another width.
    """
    own = own_code.load("model", name)
    arguments = {
        "input_shape": input_shape,
        "num_classes": num_classes,
        "width": width,
        "normalization": normalization,
    }
    asked = _parameters(own)
    if width != 1 and "width" not in asked:
        raise ValueError(
            f"width must be 1 for a model without a parameter width. Received: width={width:g}"
        )
    if isinstance(own, ModelSpec):
        return _checked(_completed(own, input_shape, input_dtype, options), num_classes)
    given = {key: value for key, value in arguments.items() if key in asked}
    create: Callable[[], KerasModel] = lambda: own(**given)  # noqa: E731
    spec = ModelSpec(create, input_shape, input_dtype or "float32", **options)
    return _checked(spec, num_classes)


def _checked(spec: ModelSpec, num_classes: int) -> ModelSpec:
    """Return the spec; raise a ValueError if its model has fewer logits than there are classes."""
    if callable(spec.loss):
        return spec
    with tf.Graph().as_default():
        model = spec.instantiate(initial=False)
        examples = tf.zeros([1, *spec.input_shape], spec.input_dtype)
        logits = model.forward(model.preprocess(examples), training=False).shape[-1]
    if logits < num_classes and (logits, num_classes) != (1, 2):
        raise ValueError(
            f"model must have a logit for each of {num_classes} classes. Received: {logits} logits"
        )
    return spec


def _completed(
    spec: ModelSpec, input_shape: tuple[int, ...], input_dtype: str, options: Mapping[str, Any]
) -> ModelSpec:
    is_fitting = spec.input_dtype == input_dtype or not input_dtype
    if tuple(spec.input_shape) != tuple(input_shape) or not is_fitting:
        raise ValueError(
            f"model must take the data's examples, {list(input_shape)} of {input_dtype}. "
            f"Received: input_shape={list(spec.input_shape)}, input_dtype={spec.input_dtype!r}"
        )
    empty = {field.name: field.default for field in dataclasses.fields(ModelSpec)}
    is_open = {key: getattr(spec, key) in (empty[key], None) for key in options}
    changes = {key: value for key, value in options.items() if is_open[key] or key == "seed"}
    return dataclasses.replace(spec, **changes)


def _parameters(create: Any) -> list[str]:
    """Return which arguments a function that creates a model asks for.

    Raises:
      ValueError: If it is no function or asks for something else.
    """
    if isinstance(create, ModelSpec):
        return []
    if isinstance(create, tf.keras.layers.Layer):  # which can be called, too
        raise ValueError(
            "model must be a function that creates a new Keras model each time it is called. "
            f"Received: a model, {create.name!r}"
        )
    if not callable(create):
        raise ValueError(
            "model must be a ModelSpec or a function that creates a Keras model. "
            f"Received: {type(create).__name__}"
        )
    parameters = inspect.signature(create).parameters.values()
    required = [p.name for p in parameters if p.default is p.empty and p.kind <= p.KEYWORD_ONLY]
    unknown = [
        p.name
        for p in parameters
        if p.name in required and p.name not in _ASKED and p.kind is not p.VAR_POSITIONAL
    ]
    if unknown:
        raise ValueError(
            f"a function that creates a model must ask for {', '.join(_ASKED)} at most. "
            f"Received: {own_code.short_name(create)}({', '.join(unknown)})"
        )
    return [p.name for p in parameters if p.name in _ASKED]
