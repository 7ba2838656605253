"""What clients do in a round of a `tff.learning` process: train, send a delta, report metrics."""

from __future__ import annotations

import collections
import functools
from collections.abc import Sequence
from typing import Callable

import numpy as np

from tff_partial.core import client_data
from tff_partial.core.lazy import tf, tff
from tff_partial.core.model import Model, ModelSpec
from tff_partial.core.part import Part
from tff_partial.core.types import (
    ClientDataset,
    ClientResult,
    Computation,
    Federated,
    Metrics,
    Record,
    Structure,
    Tensor,
    Variable,
    Weights,
)

# (The server's weights, the record, the round's number) -> what the client sends, sums of metrics.
ClientFn = Callable[[Weights, Record, Tensor], tuple[ClientResult, Metrics]]


def build(
    model: ModelSpec,
    create_client_fns: Callable[[], Sequence[ClientFn]],
    tier_names: Sequence[str] = (),
) -> tff.learning.templates.ClientWorkProcess:
    """Return the client work, whose state is the number of the round.

    Args:
      model: The model.
      create_client_fns: Called in the graph of a client; returns a function for each tier.
      tier_names: If given, the training accuracy of each tier is reported by its name.
    """
    client_update = _build_client_update(model, create_client_fns, len(tier_names))

    @tff.federated_computation
    def initialize() -> Federated:
        return tff.federated_value(0, tff.SERVER)

    @tff.federated_computation(
        initialize.type_signature.result,
        tff.FederatedType(model.weights_type, tff.CLIENTS),
        tff.FederatedType(model.data_type, tff.CLIENTS),
    )
    def next_fn(round_num: Federated, weights: Federated, data: Federated) -> Federated:
        at_clients = tff.federated_broadcast(round_num)
        result, sums = tff.federated_map(client_update, (weights, at_clients, data))
        return tff.templates.MeasuredProcessOutput(
            next_round(round_num), result, train_metrics(sums, tier_names)
        )

    return tff.learning.templates.ClientWorkProcess(initialize, next_fn)


def _build_client_update(
    model: ModelSpec, create_client_fns: Callable[[], Sequence[ClientFn]], num_names: int
) -> Computation:
    @tff.tensorflow.computation(model.weights_type, np.int32, model.data_type)
    def client_update(weights: Weights, round_num: Tensor, dataset: ClientDataset) -> Structure:
        client_fns = create_client_fns()

        @tf.function
        def run(weights: Weights, round_num: Tensor, record: Record) -> Structure:
            record = client_data.in_round(record, round_num)
            if num_names or len(client_fns) > 1:
                _check_tier(record["tier"], len(client_fns))

            def call(client_fn: ClientFn) -> tuple[ClientResult, Metrics]:
                # Defined here, so that AutoGraph converts what it calls.
                return client_fn(weights, record, round_num)

            branches = [functools.partial(call, client_fn) for client_fn in client_fns]
            one = len(branches) == 1
            result, sums = branches[0]() if one else tf.switch_case(record["tier"], branches)
            return result, _by_tier(sums, record["tier"], num_names) if num_names else sums

        return run(weights, round_num, dataset.get_single_element())

    return client_update


def next_round(round_num: Federated) -> Federated:
    """Return the number of the next round at the server."""

    @tff.tensorflow.computation(np.int32)
    def add_one(number: Tensor) -> Tensor:
        return number + 1

    return tff.federated_map(add_one, round_num)


def client_weight(record: Record, weighting: str) -> Tensor:
    """Return a client's weight in a mean: its number of examples, or 1; 0 without examples."""
    examples = tf.cast(tf.shape(record["y"])[0], tf.float32)
    return examples if weighting == "examples" else tf.math.sign(examples)


def client_result(
    model: Model, part: Part, initial: Weights, record: Record, weighting: str
) -> ClientResult:
    """Return what a client sends: its delta, and for each variable its weight in the mean.

    A variable outside the client's part has weight 0, as has a client without examples. Where
    the part trains some channels of a variable only, the weight is an array for its last axis.
    """
    weight = client_weight(record, weighting)
    trained = {id(v) for v in (*part.variables, *part.statistics)}

    def delta(variable: Variable, start: Tensor) -> Tensor:
        return variable - start if id(variable) in trained else tf.zeros_like(start)

    def weight_of(variable: Variable) -> Tensor:
        factor = tf.convert_to_tensor(part.weight(variable), tf.float32)
        return weight * factor if id(variable) in trained else tf.zeros_like(factor)

    ModelWeights = tff.learning.models.ModelWeights
    return tff.learning.templates.ClientResult(
        update=ModelWeights(
            [delta(v, w) for v, w in zip(model.trainable, initial.trainable)],
            [delta(v, w) for v, w in zip(model.statistics, initial.non_trainable)],
        ),
        update_weight=ModelWeights(
            [weight_of(v) for v in model.trainable], [weight_of(v) for v in model.statistics]
        ),
    )


def _check_tier(tier: Tensor, num_tiers: int) -> None:
    """Make a record of a tier that is not there an error; `tf.switch_case` takes the last."""
    expected = f"a record's tier must be from 0 to {num_tiers - 1}. Received: tier="
    tf.debugging.Assert((tier >= 0) & (tier < num_tiers), [expected, tier])


def _by_tier(sums: Metrics, tier: Tensor, num_tiers: int) -> Metrics:
    """Add the correct predictions and examples in a row of the client's tier, [tiers, 2]."""
    own = tf.one_hot(tier, num_tiers)[:, tf.newaxis]
    return collections.OrderedDict(sums, tiers=own * tf.stack([sums["correct"], sums["examples"]]))


def mean_metrics(totals: Metrics) -> dict[str, Tensor]:
    """Turn sums of loss, correct predictions and examples into means."""
    loss = tf.math.divide_no_nan(totals["loss"], totals["examples"])
    accuracy = tf.math.divide_no_nan(totals["correct"], totals["examples"])
    return collections.OrderedDict(
        train_loss=loss, train_accuracy=accuracy, train_examples=totals["examples"]
    )


def train_metrics(sums: Federated, tier_names: Sequence[str] = ()) -> Federated:
    """Turn clients' sums of loss, correct predictions and examples into means at the server."""

    @tff.tensorflow.computation(sums.type_signature.member)
    def finalize(totals: Metrics) -> Metrics:
        metrics = mean_metrics(totals)
        if "tiers" in totals:
            # NaN where no example of the tier was seen: there is no accuracy, not one of zero.
            of_tier = totals["tiers"][:, 0] / totals["tiers"][:, 1]
            for i, name in enumerate(tier_names):
                metrics[f"train_accuracy_{name}"] = of_tier[i]
        return metrics

    return tff.federated_map(finalize, tff.federated_sum(sums))
