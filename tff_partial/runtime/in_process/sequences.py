"""Constants and TFF's operations on sequences, added to the function that is being traced.

A sequence is the variant tensor of a `tf.data.Dataset`. The components of its elements are in the
order of `tf.nest`, which sorts the names of a structure; leaves are in the order of the TFF type.
"""

import collections
from collections.abc import Iterable, Iterator
from typing import Any

import tensorflow as tf
import tensorflow_federated as tff

from tff_partial.runtime.in_process.plan import LocalFunction, leaves_of_type


def tensor_spec(type_spec: Any) -> tf.TensorSpec:
    """How a leaf of this type is passed to a function."""
    if isinstance(type_spec, tff.SequenceType):
        return tf.TensorSpec((), tf.variant)
    return tf.TensorSpec(type_spec.shape, tf.as_dtype(type_spec.dtype.type))


def emit_constant(value: Any, type_spec: Any, unused_inputs: list[Any]) -> list[Any]:
    """A constant of the given tensor type."""
    return [tf.constant(value, tf.as_dtype(type_spec.dtype.type))]


def to_dataset(variant: Any, element_type: Any) -> tf.data.Dataset:
    """The data set behind a sequence, its elements in tuples and OrderedDicts."""
    specs = (tensor_spec(leaf) for leaf in leaves_of_type(element_type))
    return tf.data.experimental.from_variant(variant, _pack(element_type, specs))


def emit_map(function: LocalFunction, function_type: Any, inputs: list[Any]) -> list[Any]:
    """`sequence_map`. Inputs: the sequence, the function's captures."""
    variant, captures = inputs[0], inputs[1:]
    element_type = function_type.parameter

    @tf.autograph.experimental.do_not_convert
    def map_fn(*arguments: Any) -> Any:
        # `Dataset.map` spreads an element that is a tuple over the arguments.
        element = arguments if _is_tuple(element_type) else arguments[0]
        results = function.emit(_flatten(element_type, element), captures)
        return _pack(function_type.result, results)

    mapped = to_dataset(variant, element_type).map(map_fn)
    return [tf.data.experimental.to_variant(mapped)]


def emit_reduce(function: LocalFunction, element_type: Any, inputs: list[Any]) -> list[Any]:
    """`sequence_reduce`. Inputs: the sequence, the leaves of zero, the function's captures."""
    end = 1 + len(function.outputs)
    variant, zero, captures = inputs[0], inputs[1:end], inputs[end:]

    @tf.autograph.experimental.do_not_convert
    def reduce_fn(state: Any, element: Any) -> Any:
        return tuple(function.emit([*state, *_flatten(element_type, element)], captures))

    return list(to_dataset(variant, element_type).reduce(tuple(zero), reduce_fn))


def emit_sum(element_type: Any, inputs: list[Any]) -> list[Any]:
    """`sequence_sum`. Inputs: the sequence, the leaves of zero."""

    @tf.autograph.experimental.do_not_convert
    def reduce_fn(state: Any, element: Any) -> Any:
        return tuple(map(tf.add, state, _flatten(element_type, element)))

    return list(to_dataset(inputs[0], element_type).reduce(tuple(inputs[1:]), reduce_fn))


def emit_select(function: LocalFunction, function_type: Any, inputs: list[Any]) -> list[Any]:
    """`federated_select` of one client. Inputs: the keys, the leaves of the state, the function's
    captures."""
    end = len(function.parameters)  # the state's leaves and one key
    keys, state, captures = inputs[0], inputs[1:end], inputs[end:]

    @tf.autograph.experimental.do_not_convert
    def select_fn(key: Any) -> Any:
        return _pack(function_type.result, function.emit([*state, key], captures))

    selected = tf.data.Dataset.from_tensor_slices(keys).map(select_fn)
    return [tf.data.experimental.to_variant(selected)]


def _is_tuple(type_spec: Any) -> bool:
    return isinstance(type_spec, tff.StructType) and not tff.structure.name_list(type_spec)


def _flatten(type_spec: Any, element: Any) -> list[Any]:
    if not isinstance(type_spec, tff.StructType):
        return [element]
    fields = tff.structure.to_elements(type_spec)
    keys: Iterable[Any] = (
        range(len(fields)) if _is_tuple(type_spec) else (name for name, _ in fields)
    )
    return [leaf for key, (_, field) in zip(keys, fields) for leaf in _flatten(field, element[key])]


def _pack(type_spec: Any, leaves: Iterable[Any]) -> Any:
    leaves = iter(leaves)
    return _pack_next(type_spec, leaves)


def _pack_next(type_spec: Any, leaves: Iterator[Any]) -> Any:
    if not isinstance(type_spec, tff.StructType):
        return next(leaves)
    fields = [
        (name, _pack_next(field, leaves)) for name, field in tff.structure.to_elements(type_spec)
    ]
    if _is_tuple(type_spec):
        return tuple(value for _, value in fields)
    return collections.OrderedDict(fields)
