"""Brings updates to the form that TFF's robust, secure and private aggregators take.

They take structures of floating-point numbers of one type. An update may hold others (the count of
`tf.keras.layers.Normalization`), which cannot be averaged: their mean is 0 (`aggregation`).
"""

from __future__ import annotations

import collections
from collections.abc import Sequence

from tff_partial.core.aggregation import MEAN, TRAINED
from tff_partial.core.lazy import tf, tff
from tff_partial.core.types import Federated, Structure, Tensor, TffType


class FloatsOnly:
    """A weighted aggregation factory that hands the floats of updates to another one.

    An update that is not finite becomes 0, with the weight that it has, or with the weight 0 if
    `drops`. So does a weight that is not finite or negative.
    """

    def __init__(
        self, inner: tff.aggregators.WeightedAggregationFactory, drops: bool = False
    ) -> None:
        # A virtual subclass, because TFF is imported late (core/lazy.py).
        tff.aggregators.WeightedAggregationFactory.register(FloatsOnly)
        self._inner, self._drops = inner, drops

    def create(self, value_type: TffType, weight_type: TffType) -> tff.templates.AggregationProcess:
        """Return the aggregation process for these member types."""
        specs: list[Structure] = []

        @tff.tensorflow.computation(value_type, weight_type)
        def select(value: Structure, weight: Structure) -> tuple[Structure, Structure]:
            specs.append(spec_of(value))
            values, weights = floats(value, weight)
            is_finite = all_finite([*values, *weights])
            kept = [tf.where(is_finite, v, tf.zeros_like(v)) for v in values]
            counts = is_finite if self._drops else True
            valid = [tf.math.is_finite(w) & (w > 0) & counts for w in weights]
            weights = [
                tf.where(is_valid, w, tf.zeros_like(w)) for is_valid, w in zip(valid, weights)
            ]
            return kept, weights if len(weights) > 1 else weights[0]

        inner = self._inner.create(*select.type_signature.result)
        pack = tff.tensorflow.computation(lambda result: _packed(specs[0], result))

        @tff.federated_computation(
            inner.initialize.type_signature.result,
            tff.FederatedType(value_type, tff.CLIENTS),
            tff.FederatedType(weight_type, tff.CLIENTS),
        )
        def next_fn(state: Federated, value: Federated, weight: Federated) -> Federated:
            values, weights = tff.federated_map(select, (value, weight))
            done = inner.next(state, values, weights)
            result = tff.federated_map(pack, done.result)
            return tff.templates.MeasuredProcessOutput(done.state, result, done.measurements)

        return tff.templates.AggregationProcess(inner.initialize, next_fn)


def floats(value: Structure, weight: Structure) -> tuple[list[Tensor], list[Tensor]]:
    """Return the floats of an update, as float32, and their weights, or the one for all."""
    kept = [v for v in tf.nest.flatten(value) if v.dtype.is_floating]
    return [tf.cast(v, tf.float32) for v in kept], float_weights(value, weight)


def float_weights(value: Structure, weight: Structure) -> list[Tensor]:
    """Return the weights of an update's floats; one that serves all is returned as it is."""
    values, weights = tf.nest.flatten(value), tf.nest.flatten(weight)
    if len(weights) == 1:
        return weights
    return [w for v, w in zip(values, weights) if v.dtype.is_floating]


def all_finite(tensors: Sequence[Tensor]) -> Tensor:
    """Return whether all elements are finite."""
    return tf.reduce_all([tf.reduce_all(tf.math.is_finite(t)) for t in tensors])


def spec_of(value: Structure) -> Structure:
    """Return shapes and types, for `pack`."""
    return tf.nest.map_structure(lambda v: tf.TensorSpec(v.shape, v.dtype), value)


def pack(spec: Structure, values: Sequence[Tensor]) -> Structure:
    """Return an update of these floats, 0 elsewhere."""
    rest = iter(values)
    packed = [
        tf.cast(next(rest), s.dtype) if s.dtype.is_floating else tf.zeros(s.shape, s.dtype)
        for s in tf.nest.flatten(spec)
    ]
    return tf.nest.pack_sequence_as(spec, packed)


def _packed(spec: Structure, result: Structure) -> Structure:
    if not isinstance(result, dict):
        return pack(spec, result)
    return collections.OrderedDict(
        {MEAN: pack(spec, result[MEAN]), TRAINED: pack_trained(spec, result[TRAINED])}
    )


def pack_trained(spec: Structure, trained: Structure) -> Structure:
    """Return for each variable whether somebody trained it; nobody trains what is no float."""
    flags = tf.nest.flatten(trained)
    if len(flags) == 1:
        flags *= sum(s.dtype.is_floating for s in tf.nest.flatten(spec))
    rest = iter(flags)
    packed = [
        next(rest) if s.dtype.is_floating else tf.constant(False) for s in tf.nest.flatten(spec)
    ]
    return tf.nest.pack_sequence_as(spec, packed)
