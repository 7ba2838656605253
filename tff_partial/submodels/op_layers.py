"""Operations between the layers of a functional model, which Keras keeps as layers.

A narrow copy of the model repeats them on its own tensors. Where a shape is written with the number
of channels, that number is replaced.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Optional

from tff_partial.core.lazy import tf
from tff_partial.core.types import Layer, Structure


def is_op(layer: Optional[Layer]) -> bool:
    """Return whether a layer is an operation that Keras has made a layer of."""
    from keras.src.layers.core import tf_op_layer

    kinds = (tf_op_layer.TFOpLambda, tf_op_layer.ClassMethod, tf_op_layer.InstanceProperty)
    return isinstance(layer, kinds)


def name_of(layer: Layer) -> str:
    """Return the name of the operation."""
    return getattr(getattr(layer, "function", None), "__name__", "")


def is_made_anew(layer: Optional[Layer]) -> bool:
    """Return whether numbers of channels that are written in an operation can be replaced."""
    return is_op(layer) and getattr(layer, "function", None) is tf.reshape


def repeat(
    layer: Layer, args: Structure, kwargs: Structure, sizes: Sequence[Optional[int]]
) -> Structure:
    """Call the operation again, where `sizes` are those of its output's channel axes, else None."""
    from keras.src.layers.core import tf_op_layer

    args, kwargs = tf.nest.map_structure(_constant, (args, kwargs))
    if is_made_anew(layer) and any(sizes):
        (tensor, *rest), given = args, dict(kwargs)
        shape = given.pop("shape", None) or rest.pop(0)
        shape = [new if new and _is_literal(old) else old for old, new in zip(shape, sizes)]
        args, kwargs = (tensor, shape, *rest), given
    if isinstance(layer, tf_op_layer.TFOpLambda):
        return layer.function(*args, **kwargs)
    return type(layer).from_config(layer.get_config())(*args, **kwargs)


def _constant(value: Structure) -> Structure:
    """Return a constant of the copied model's graph, as the 1 of `x + 1`, as one of this graph."""
    if not tf.is_tensor(value) or tf.keras.backend.is_keras_tensor(value):
        return value
    number = tf.get_static_value(value)
    return value if number is None else tf.constant(number, value.dtype)


def _is_literal(size: Structure) -> bool:
    return isinstance(size, int) and size >= 0
