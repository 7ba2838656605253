"""Constants and TFF's operations on sequences, as steps of a plan.

A sequence is the variant tensor of a `tf.data.Dataset`. The components of its elements are in the
order of `tf.nest`, which sorts the names of a structure; leaves are in the order of the TFF type.
"""

import collections
from collections.abc import Iterator, Sequence
from typing import Optional

import numpy as np
import tensorflow as tf
import tensorflow_federated as tff

from tff_partial.core.types import Array, Structure, Tensor, TffType
from tff_partial.runtime.in_process import steps
from tff_partial.runtime.in_process.steps import CLIENTS, Function, Leaf, Region, Step, Value


def constant(value: Array, type_spec: tff.TensorType, region: Region) -> Leaf:
    dtype = tf.as_dtype(type_spec.dtype.type)
    return Step(lambda _: [tf.constant(value, dtype)], (), type_spec, region).outputs[0]


def tensor_spec(type_spec: steps.LeafType) -> tf.TensorSpec:
    """Return how a leaf of this type is passed to a function."""
    if isinstance(type_spec, tff.SequenceType):
        return tf.TensorSpec((), tf.variant)
    return tf.TensorSpec(type_spec.shape, tf.as_dtype(type_spec.dtype.type))


def to_dataset(variant: Tensor, element_type: TffType) -> tf.data.Dataset:
    """Return the data set of a sequence, its elements in tuples and OrderedDicts."""
    specs = (tensor_spec(leaf) for leaf in steps.leaf_types(element_type))
    return tf.data.experimental.from_variant(variant, _pack(element_type, specs))


def sequence_map(type_spec: TffType, argument: tuple[Function, Leaf], region: Region) -> Value:
    function, sequence = argument
    function_type = type_spec.parameter[0]
    element_type = function_type.parameter
    mapping = steps.plan_function(function, element_type)

    def emit(inputs: Sequence[Tensor]) -> list[Tensor]:
        variant, *captures = inputs

        @tf.autograph.experimental.do_not_convert
        def map_fn(*arguments: Structure) -> Structure:
            # `Dataset.map` spreads an element that is a tuple over the arguments.
            element = arguments if _is_tuple(element_type) else arguments[0]
            results = mapping.emit(_flatten(element_type, element), captures)
            return _pack(function_type.result, iter(results))

        return [tf.data.experimental.to_variant(to_dataset(variant, element_type).map(map_fn))]

    inputs = [sequence, *mapping.captures]
    return Step(emit, inputs, type_spec.result, region, mapping.exclusive).result


def sequence_reduce(
    type_spec: TffType, argument: tuple[Leaf, Value, Function], region: Region
) -> Value:
    sequence, initial, function = argument
    return _reduce(sequence, initial, function, type_spec.parameter[2], region)


def sequence_sum(type_spec: TffType, sequence: Leaf, region: Region) -> Value:
    sum_type = type_spec.result

    def emit(terms: Sequence[Tensor]) -> list[Tensor]:
        half = len(terms) // 2
        return list(map(tf.add, terms[:half], terms[half:]))

    def add(argument: Optional[Value], region: Region) -> Value:
        return Step(emit, steps.flatten(argument), sum_type, region).result

    add_type = tff.FunctionType([sum_type, sequence.type.element], sum_type)
    return _reduce(sequence, _zero(sum_type, region), add, add_type, region)


def _zero(type_spec: TffType, region: Region) -> Value:
    """Return zeros of a type whose leaves are tensors of known shape."""
    if isinstance(type_spec, tff.StructType):
        return tuple(_zero(element, region) for element in type_spec)
    is_tensor = isinstance(type_spec, tff.TensorType)
    if not is_tensor or not tff.types.is_shape_fully_defined(type_spec.shape):
        raise NotImplementedError(
            f"sequence_sum needs tensors of known shape. Received: {type_spec}"
        )
    return constant(np.zeros(type_spec.shape, type_spec.dtype), type_spec, region)


def _reduce(
    sequence: Leaf, initial: Value, function: Function, function_type: TffType, region: Region
) -> Value:
    reducing = steps.plan_function(function, function_type.parameter)
    element_type, end = sequence.type.element, 1 + len(reducing.outputs)

    def emit(inputs: Sequence[Tensor]) -> list[Tensor]:
        variant, state, captures = inputs[0], inputs[1:end], inputs[end:]

        @tf.autograph.experimental.do_not_convert
        def reduce_fn(state: tuple[Tensor, ...], element: Structure) -> tuple[Tensor, ...]:
            return tuple(reducing.emit([*state, *_flatten(element_type, element)], captures))

        return list(to_dataset(variant, element_type).reduce(tuple(state), reduce_fn))

    inputs = [sequence, *steps.flatten(initial), *reducing.captures]
    return Step(emit, inputs, function_type.result, region, reducing.exclusive).result


def select(
    type_spec: TffType, argument: tuple[Leaf, Leaf, Value, Function], unused_region: Region
) -> Value:
    """Return `federated_select`: for each of a client's keys, what is selected from the state."""
    keys, _, state, function = argument
    function_type = type_spec.parameter[3]
    selecting = steps.plan_function(function, function_type.parameter)
    end = len(selecting.parameters)  # the state's leaves and one key

    def emit(inputs: Sequence[Tensor]) -> list[Tensor]:
        keys, state, captures = inputs[0], inputs[1:end], inputs[end:]

        @tf.autograph.experimental.do_not_convert
        def select_fn(key: Tensor) -> Structure:
            return _pack(function_type.result, iter(selecting.emit([*state, key], captures)))

        selected = tf.data.Dataset.from_tensor_slices(keys).map(select_fn)
        return [tf.data.experimental.to_variant(selected)]

    inputs = [keys, *steps.flatten(state), *selecting.captures]
    return Step(emit, inputs, type_spec.result, CLIENTS, selecting.exclusive).result


def _is_tuple(type_spec: TffType) -> bool:
    return isinstance(type_spec, tff.StructType) and not tff.structure.name_list(type_spec)


def _flatten(type_spec: TffType, element: Structure) -> list[Tensor]:
    """Return the leaves of an element in the order of its type."""
    if not isinstance(type_spec, tff.StructType):
        return [element]
    fields = tff.structure.to_elements(type_spec)
    by_position = _is_tuple(type_spec)
    parts = (element[i if by_position else name] for i, (name, _) in enumerate(fields))
    return [leaf for part, (_, field) in zip(parts, fields) for leaf in _flatten(field, part)]


def _pack(type_spec: TffType, leaves: Iterator[Tensor]) -> Structure:
    """Return the next leaves as an element of a data set: in tuples and OrderedDicts."""
    if not isinstance(type_spec, tff.StructType):
        return next(leaves)
    parts = [(name, _pack(t, leaves)) for name, t in tff.structure.to_elements(type_spec)]
    if _is_tuple(type_spec):
        return tuple(part for _, part in parts)
    return collections.OrderedDict(parts)
