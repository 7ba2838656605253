"""What clients do in a round of a `tff.learning` process: train, send a delta, report metrics."""

from __future__ import annotations

import functools
from collections import OrderedDict
from collections.abc import Sequence
from typing import Callable, Optional

from tff_partial.core import client_data, local_training, tracing
from tff_partial.core.aggregators import MEAN, Aggregator
from tff_partial.core.lazy import tf, tff
from tff_partial.core.local_training import LocalTraining
from tff_partial.core.model import Model, ModelSpec
from tff_partial.core.part import Part
from tff_partial.core.types import ClientResult, Federated, Metrics, Record, Tensor, Weights
from tff_partial.processes import tiered

# What a client sends, and the sums of its metrics.
Outcome = tuple[ClientResult, Metrics]
# (The server's weights, the record, the round's number) -> what comes of a client's round.
ClientFn = Callable[[Weights, Record, Tensor], Outcome]
# Called in the graph of a client with the tiers, by their positions; returns a function for each.
CreateClientFns = Callable[[Sequence[int]], Sequence[ClientFn]]


def build(
    model: ModelSpec,
    create_client_fns: CreateClientFns,
    num_tiers: int,
    tier_names: Sequence[str] = (),
    only: Optional[int] = None,
    store: Optional[tracing.Store] = None,
    aggregator: Aggregator = MEAN,
    cycle: Sequence[int] = (),
) -> tff.learning.templates.ClientWorkProcess:
    """Return the client work, whose state is the number of the round.

    If `tier_names` are given, the training accuracy of each tier is reported. If `only` is given,
    clients are taken to be of this tier, and those of others are not traced. `store` keeps what is
    traced. Metrics reach the server as the `aggregator` has it. With a `cycle`, its phase decides
    in place of the tier (`tiered`).
    """
    tiers = range(num_tiers) if only is None else [only]
    client_update = tracing.computation(f"client_update of tiers {[*tiers]}", store)(
        _client_update(create_client_fns, tiers, num_tiers, len(tier_names), cycle)
    )
    initialize = tff.federated_computation(lambda: tff.federated_value(0, tff.SERVER))

    @tff.federated_computation(
        initialize.type_signature.result,
        tff.FederatedType(model.weights_type, tff.CLIENTS),
        tff.FederatedType(model.data_type, tff.CLIENTS),
    )
    def next_fn(round_num: Federated, weights: Federated, data: Federated) -> Federated:
        at_clients = tff.federated_broadcast(round_num)
        result, sums = tff.federated_map(client_update, (weights, at_clients, data))
        metrics = train_metrics(sums, tier_names, aggregator)
        return tff.templates.MeasuredProcessOutput(next_round(round_num), result, metrics)

    return tff.learning.templates.ClientWorkProcess(initialize, next_fn)


def _client_update(
    create_client_fns: CreateClientFns,
    tiers: Sequence[int],
    num_tiers: int,
    num_names: int,
    cycle: Sequence[int],
) -> Callable[..., Outcome]:
    """Return what is traced: (weights, round, data) -> what comes of a client's round."""

    def client_update(weights: Weights, round_num: Tensor, dataset: tf.data.Dataset) -> Outcome:
        client_fns = create_client_fns(tiers)

        @tf.function(autograph=False)
        def run(weights: Weights, round_num: Tensor, record: Record) -> Outcome:
            record = client_data.in_round(record, round_num)
            chosen = tiered.phase(cycle, round_num) if cycle else record["tier"]
            if num_names or num_tiers > 1:
                _check_tier(chosen, num_tiers)
            branches = [functools.partial(fn, weights, record, round_num) for fn in client_fns]
            one = len(branches) == 1
            result, sums = branches[0]() if one else tf.switch_case(chosen, branches)
            return result, _by_tier(sums, record["tier"], num_names) if num_names else sums

        return run(weights, round_num, dataset.get_single_element())

    return client_update


def next_round(round_num: Federated) -> Federated:
    """Return the number of the next round at the server."""
    return tff.federated_map(tff.tensorflow.computation(lambda number: number + 1), round_num)


def train_part(
    model: Model, part: Part, local: LocalTraining, pull: float, weighting: str
) -> ClientFn:
    """Return local SGD on a part of the model as what a client does."""
    train, learning_rate = local_training.build(model, part, local, pull), local.schedule()

    def run(weights: Weights, record: Record, round_num: Tensor) -> Outcome:
        sums = train(weights, record, learning_rate(round_num))
        # The zeros of what is not trained would else be made first and held through all steps.
        with tf.control_dependencies(tf.nest.flatten(sums)):
            return _client_result(model, part, weights, record, weighting), sums

    return run


def client_weight(record: Record, weighting: str) -> Tensor:
    """Return a client's weight in a mean: its number of examples, or 1; 0 without examples."""
    examples = tf.cast(tf.shape(record["y"])[0], tf.float32)
    return examples if weighting == "examples" else tf.math.sign(examples)


def _client_result(
    model: Model, part: Part, initial: Weights, record: Record, weighting: str
) -> ClientResult:
    """Return what a client sends: its delta, and for each variable its weight in the mean.

    A variable outside the client's part has weight 0, as has a client without examples. Where
    the part trains some channels of a variable only, the weight is an array for its last axis.
    """
    weight = client_weight(record, weighting)
    trained = {id(v) for v in (*part.variables, *part.statistics)}

    def delta(variable: tf.Variable, start: Tensor) -> Tensor:
        return variable - start if id(variable) in trained else tf.zeros_like(start)

    def weight_of(variable: tf.Variable) -> Tensor:
        factor = tf.convert_to_tensor(part.weight(variable), tf.float32)
        return weight * factor if id(variable) in trained else tf.zeros_like(factor)

    return tff.learning.templates.ClientResult(
        update=tf.nest.map_structure(delta, model.weights, initial),
        update_weight=tf.nest.map_structure(weight_of, model.weights),
    )


def _check_tier(tier: Tensor, num_tiers: int) -> None:
    """Make a record of a tier that is not there an error; `tf.switch_case` takes the last."""
    expected = f"a record's tier must be from 0 to {num_tiers - 1}. Received: tier="
    tf.debugging.Assert((tier >= 0) & (tier < num_tiers), [expected, tier])


def _by_tier(sums: Metrics, tier: Tensor, num_tiers: int) -> Metrics:
    """Add the correct predictions and examples in a row of the client's tier, [tiers, 2]."""
    own = tf.one_hot(tier, num_tiers)[:, tf.newaxis]
    return OrderedDict(sums, tiers=own * tf.stack([sums["correct"], sums["examples"]]))


def mean_metrics(totals: Metrics) -> dict[str, Tensor]:
    """Turn sums of loss, correct predictions and examples into means."""
    loss = tf.math.divide_no_nan(totals["loss"], totals["examples"])
    accuracy = tf.math.divide_no_nan(totals["correct"], totals["examples"])
    return OrderedDict(train_loss=loss, train_accuracy=accuracy, train_examples=totals["examples"])


def train_metrics(
    sums: Federated, tier_names: Sequence[str] = (), aggregator: Aggregator = MEAN
) -> Federated:
    """Turn clients' sums of loss, correct predictions and examples into means at the server."""
    if not aggregator.REPORTS_TRAINING:
        return tff.federated_value(OrderedDict(), tff.SERVER)

    @tff.tensorflow.computation
    def finalize(totals: Metrics) -> Metrics:
        metrics = mean_metrics(totals)
        if "tiers" in totals:
            # NaN where no example of the tier was seen: there is no accuracy, not one of zero.
            of_tier = totals["tiers"][:, 0] / totals["tiers"][:, 1]
            for i, name in enumerate(tier_names):
                metrics[f"train_accuracy_{name}"] = of_tier[i]
        return metrics

    return tff.federated_map(finalize, aggregator.sum(sums))
