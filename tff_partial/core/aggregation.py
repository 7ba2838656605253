"""The one weighted mean over contributors.

    result = sum_k(w_k * d_k) / sum_k(w_k),    0 where sum_k(w_k) = 0

A weight has the shape it needs: one scalar for the whole update, a scalar for each variable
(layer-wise algorithms) or an array for each variable (neuron-wise ones). Where nobody contributed
the result is 0, so that the global value stays. So it is for what cannot be averaged: variables
that are not floating-point numbers, such as the count of `tf.keras.layers.Normalization`.
"""

from __future__ import annotations

import collections
import dataclasses
from typing import Callable, Optional

from tff_partial.core.lazy import tf, tff
from tff_partial.core.types import Federated, Structure, Tensor, TffType

# The parts of a result that says who contributed.
MEAN, TRAINED = "mean", "trained"


@dataclasses.dataclass(frozen=True)
class ContributorMean:
    """Builds the aggregation process; a `tff.aggregators.WeightedAggregationFactory`.

    Attributes:
      value_sum: Inner factory for sum(w * d), for example a secure or private sum; a plain sum by
        default.
      weight_sum: The same for sum(w).
      says_who: Whether the result is a dictionary of the `mean` and of `trained`, which says for
        each weight whether somebody contributed.
    """

    value_sum: Optional[tff.aggregators.UnweightedAggregationFactory] = None
    weight_sum: Optional[tff.aggregators.UnweightedAggregationFactory] = None
    says_who: bool = False

    def __post_init__(self) -> None:
        # A virtual subclass, because TFF is imported late (core/lazy.py).
        tff.aggregators.WeightedAggregationFactory.register(ContributorMean)

    def create(self, value_type: TffType, weight_type: TffType) -> tff.templates.AggregationProcess:
        """Return the aggregation process for these member types.

        Raises:
          TypeError: If the weight is neither a scalar nor has the structure of the value.
        """
        _check_types(value_type, weight_type)
        values = (self.value_sum or tff.aggregators.SumFactory()).create(value_type)
        weights = (self.weight_sum or tff.aggregators.SumFactory()).create(weight_type)
        compute, divide_no_nan = tff.tensorflow.computation, tf.math.divide_no_nan
        weigh = compute(lambda value, weight: _map(tf.multiply, value, weight))
        divide = compute(
            lambda total, weight: self._result(_map(divide_no_nan, total, weight), weight)
        )
        initialize = tff.federated_computation(
            lambda: tff.federated_zip((values.initialize(), weights.initialize()))
        )

        @tff.federated_computation(
            initialize.type_signature.result,
            tff.FederatedType(value_type, tff.CLIENTS),
            tff.FederatedType(weight_type, tff.CLIENTS),
        )
        def next_fn(state: Federated, value: Federated, weight: Federated) -> Federated:
            total = values.next(state[0], tff.federated_map(weigh, (value, weight)))
            weight_total = weights.next(state[1], weight)
            return tff.templates.MeasuredProcessOutput(
                tff.federated_zip((total.state, weight_total.state)),
                tff.federated_map(divide, (total.result, weight_total.result)),
                tff.federated_zip((total.measurements, weight_total.measurements)),
            )

        return tff.templates.AggregationProcess(initialize, next_fn)

    def _result(self, mean: Structure, weight: Structure) -> Structure:
        if not self.says_who:
            return mean
        trained = tf.nest.map_structure(lambda w: w > 0, weight)
        return collections.OrderedDict({MEAN: mean, TRAINED: trained})


def _map(fn: Callable[..., Tensor], values: Structure, weights: Structure) -> Structure:
    """Apply fn(value, weight) to every float variable; a single weight serves all."""
    flat_values, flat_weights = tf.nest.flatten(values), tf.nest.flatten(weights)
    if len(flat_weights) == 1:
        flat_weights *= len(flat_values)
    pairs = zip(flat_values, flat_weights)
    results = [fn(v, w) if v.dtype.is_floating else tf.zeros_like(v) for v, w in pairs]
    return tf.nest.pack_sequence_as(values, results)


def _check_types(value_type: TffType, weight_type: TffType) -> None:
    values = tff.structure.flatten(tff.types.to_type(value_type))
    is_scalar = isinstance(weight_type, tff.TensorType)
    weights = [weight_type] if is_scalar else tff.structure.flatten(weight_type)
    if len(weights) not in (1, len(values)):
        raise TypeError(
            "an update's weight must be a scalar or have the update's structure. "
            f"Received: {len(weights)} weights for {len(values)} variables"
        )
