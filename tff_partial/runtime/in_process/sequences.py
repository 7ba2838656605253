"""Constants and TFF's operations on sequences, as steps of a plan.

A sequence is the variant tensor of a `tf.data.Dataset`. The components of its elements are in the
order of `tf.nest`, which sorts the names of a structure; leaves are in the order of the TFF type.
"""

import collections
from collections.abc import Iterable, Sequence
from typing import Optional

import numpy as np
import tensorflow as tf
import tensorflow_federated as tff

from tff_partial.core.types import Array, Structure, Tensor, TffType
from tff_partial.runtime.in_process import steps
from tff_partial.runtime.in_process.steps import CLIENTS, Leaf, LeafType, Region, Step, Value


def constant(value: Array, type_spec: tff.TensorType, region: Region) -> Leaf:
    dtype = tf.as_dtype(type_spec.dtype.type)
    return Step(lambda _: [tf.constant(value, dtype)], (), [type_spec], region).outputs[0]


def zeros(type_spec: TffType, region: Region) -> list[Leaf]:
    """Return a zero for each leaf of a type.

    Raises:
      NotImplementedError: If a leaf is a sequence, or its shape is not known.
    """
    return [_zero(leaf_type, region) for leaf_type in steps.leaf_types(type_spec)]


def _zero(type_spec: LeafType, region: Region) -> Leaf:
    is_tensor = isinstance(type_spec, tff.TensorType)
    if not is_tensor or not tff.types.is_shape_fully_defined(type_spec.shape):
        raise NotImplementedError(
            f"generic_zero needs a tensor of known shape. Received: {type_spec}"
        )
    return constant(np.zeros(type_spec.shape, type_spec.dtype), type_spec, region)


def tensor_spec(type_spec: LeafType) -> tf.TensorSpec:
    """Return how a leaf of this type is passed to a function."""
    if isinstance(type_spec, tff.SequenceType):
        return tf.TensorSpec((), tf.variant)
    return tf.TensorSpec(type_spec.shape, tf.as_dtype(type_spec.dtype.type))


def to_dataset(variant: Tensor, element_type: TffType) -> tf.data.Dataset:
    """Return the data set of a sequence, its elements in tuples and OrderedDicts."""
    specs = (tensor_spec(leaf) for leaf in steps.leaf_types(element_type))
    return tf.data.experimental.from_variant(variant, _pack(element_type, specs))


def sequence_map(type_spec: TffType, argument: tuple[Value, Leaf], region: Region) -> Value:
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
            return _pack(function_type.result, results)

        return [tf.data.experimental.to_variant(to_dataset(variant, element_type).map(map_fn))]

    inputs = [sequence, *mapping.captures]
    return Step(emit, inputs, [type_spec.result], region, mapping.exclusive).outputs[0]


def sequence_reduce(
    type_spec: TffType, argument: tuple[Leaf, Value, Value], region: Region
) -> Value:
    sequence, zero, function = argument
    return _reduce(sequence, steps.flatten(zero), function, type_spec.parameter[2], region)


def sequence_sum(type_spec: TffType, sequence: Leaf, region: Region) -> Value:
    sum_type = type_spec.result
    types = steps.leaf_types(sum_type)

    def emit_sums(terms: Sequence[Tensor]) -> list[Tensor]:
        return list(map(tf.add, terms[: len(types)], terms[len(types) :]))

    def add(argument: Optional[Value], region: Region) -> Value:
        sums = Step(emit_sums, steps.flatten(argument), types, region)
        return steps.pack(sum_type, sums.outputs)

    add_type = tff.FunctionType([sum_type, sequence.type.element], sum_type)
    return _reduce(sequence, zeros(sum_type, region), add, add_type, region)


def _reduce(
    sequence: Leaf, zero: list[Leaf], function: Value, function_type: TffType, region: Region
) -> Value:
    reducing = steps.plan_function(function, function_type.parameter)
    element_type, end = sequence.type.element, 1 + len(zero)

    def emit(inputs: Sequence[Tensor]) -> list[Tensor]:
        variant, initial, captures = inputs[0], inputs[1:end], inputs[end:]

        @tf.autograph.experimental.do_not_convert
        def reduce_fn(state: tuple[Tensor, ...], element: Structure) -> tuple[Tensor, ...]:
            return tuple(reducing.emit([*state, *_flatten(element_type, element)], captures))

        return list(to_dataset(variant, element_type).reduce(tuple(initial), reduce_fn))

    inputs = [sequence, *zero, *reducing.captures]
    types = steps.leaf_types(function_type.result)
    step = Step(emit, inputs, types, region, reducing.exclusive)
    return steps.pack(function_type.result, step.outputs)


def select(type_spec: TffType, argument: tuple[Value, ...], unused_region: Region) -> Value:
    """Return `federated_select`: for each of a client's keys, what is selected from the state."""
    keys, _, state, function = argument
    function_type = type_spec.parameter[3]
    selecting = steps.plan_function(function, function_type.parameter)
    end = len(selecting.parameters)  # the state's leaves and one key

    def emit(inputs: Sequence[Tensor]) -> list[Tensor]:
        keys, state, captures = inputs[0], inputs[1:end], inputs[end:]

        @tf.autograph.experimental.do_not_convert
        def select_fn(key: Tensor) -> Structure:
            return _pack(function_type.result, selecting.emit([*state, key], captures))

        selected = tf.data.Dataset.from_tensor_slices(keys).map(select_fn)
        return [tf.data.experimental.to_variant(selected)]

    inputs = [*steps.flatten(keys), *steps.flatten(state), *selecting.captures]
    types = steps.leaf_types(type_spec.result)
    return Step(emit, inputs, types, CLIENTS, selecting.exclusive).outputs[0]


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


def _pack(type_spec: TffType, leaves: Iterable[Tensor]) -> Structure:
    """Return leaves as an element of a data set: in tuples and OrderedDicts."""
    remaining = iter(leaves)

    def pack_next(type_spec: TffType) -> Structure:
        if not isinstance(type_spec, tff.StructType):
            return next(remaining)
        fields = [(name, pack_next(t)) for name, t in tff.structure.to_elements(type_spec)]
        is_tuple = _is_tuple(type_spec)
        return tuple(part for _, part in fields) if is_tuple else collections.OrderedDict(fields)

    return pack_next(type_spec)
