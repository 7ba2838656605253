"""Composes `tff.learning` processes from what an algorithm says of itself.

distributor: the server's weights to every client
client work: the local loop on the client's part; its delta, and a weight for each variable
aggregator:  the mean over contributors (aggregation.py)
finalizer:   weights + server_learning_rate * mean, trainable and statistics alike
"""

from __future__ import annotations

import collections
import dataclasses
import functools
from collections.abc import Sequence
from typing import Any, Callable, ClassVar, Optional

import numpy as np

from tff_partial.core import aggregation, client_data, finite, local_training
from tff_partial.core.lazy import tf, tff
from tff_partial.core.model import Model, ModelSpec
from tff_partial.layers import parts
from tff_partial.tiers import NAMES, Tier, as_tiers

WEIGHTINGS = ("examples", "uniform")
PartFn = Callable[[Model], parts.Part]
# (The server's weights, the record, the round's number) -> what the client sends, sums of metrics.
ClientFn = Callable[[Any, Any, Any], tuple[Any, Any]]


@dataclasses.dataclass(frozen=True)
class TieredParams:
    """Hyperparameters that every algorithm with tiers has.

    Attributes:
      local: How a client trains.
      tiers: The tiers, or how they are written; a record's `tier` is a position in it.
      weighting: Weight of a client in the mean: `uniform`, as in the papers, or `examples`.
    """

    local: local_training.LocalTraining = dataclasses.field(
        default_factory=lambda: local_training.LocalTraining(steps=10)
    )
    tiers_are_rates: ClassVar[bool] = False
    tiers: tuple[Tier, ...] = as_tiers(NAMES)
    weighting: str = "uniform"

    def __post_init__(self) -> None:
        finite.check_fields(self)
        check_mean(self.weighting)
        object.__setattr__(self, "tiers", as_tiers(self.tiers, self.tiers_are_rates))

    @property
    def tier_names(self) -> tuple[str, ...]:
        """The names of the tiers, in results."""
        return tuple(tier.name for tier in self.tiers)


def build_tiered_process(
    model: ModelSpec, params: TieredParams, part_fn: Callable[[Tier], PartFn]
) -> Any:
    """Returns the process whose clients train the part that belongs to their tier."""
    return build_learning_process(
        model,
        params.local,
        [part_fn(tier) for tier in params.tiers],
        weighting=params.weighting,
        tier_names=params.tier_names,
    )


def build_learning_process(
    model: ModelSpec,
    local: local_training.LocalTraining,
    part_fns: Sequence[PartFn] = (parts.everything,),
    pull: float = 0.0,
    weighting: str = "examples",
    server_learning_rate: float = 1.0,
    aggregator: Optional[Any] = None,
    tier_names: Sequence[str] = (),
) -> Any:
    """Returns a `tff.learning.templates.LearningProcess` whose clients train parts of the model.

    Args:
      model: The model.
      local: How a client trains.
      part_fns: Which part of the model a client trains, for each tier.
      pull: Weight of the penalty 1/2 |w - x|^2, x the server's model, on the trained part.
      weighting: Clients count by their `examples`, or are `uniform`.
      server_learning_rate: Factor of the mean update.
      aggregator: A weighted TFF aggregation factory; the mean over contributors by default.
      tier_names: If given, the training accuracy of each tier is reported by its name.

    Raises:
      ValueError: If `weighting` or `server_learning_rate` is not valid.
    """
    check_mean(weighting, server_learning_rate)

    def create_client_fns() -> list[ClientFn]:
        built = model.instantiate()
        return [
            functools.partial(
                _train_part,
                built,
                part,
                local_training.build(built, part, local, pull),
                local,
                weighting,
            )
            for part in [part_fn(built) for part_fn in part_fns]
        ]

    return compose(model, create_client_fns, server_learning_rate, aggregator, tier_names)


def compose(
    model: ModelSpec,
    create_client_fns: Callable[[], Sequence[ClientFn]],
    server_learning_rate: float = 1.0,
    aggregator: Optional[Any] = None,
    tier_names: Sequence[str] = (),
    finalizer: Optional[Any] = None,
) -> Any:
    """Returns a `tff.learning.templates.LearningProcess` from what clients of each tier do.

    Args:
      model: The model.
      create_client_fns: Called in the graph of a client; returns a function for each tier.
      server_learning_rate: Factor of the mean update.
      aggregator: As in `build_learning_process`.
      tier_names: As in `build_learning_process`.
      finalizer: What the server does with the mean, in place of adding it.
    """
    client_work = build_client_work(model, create_client_fns, tier_names)
    result = client_work.next.type_signature.result.result.member
    factory = aggregator or aggregation.ContributorMean()
    return tff.learning.templates.compose_learning_process(
        build_initial_weights(model),
        tff.learning.templates.build_broadcast_process(model.weights_type),
        client_work,
        factory.create(result.update, result.update_weight),
        finalizer or build_finalizer(model, server_learning_rate),
    )


def check_mean(weighting: str, server_learning_rate: float = 1.0) -> None:
    """Raises a ValueError if clients cannot be weighted so, or the rate is not positive."""
    if weighting not in WEIGHTINGS:
        raise ValueError(
            f"weighting must be one of {WEIGHTINGS}. Received: weighting={weighting!r}"
        )
    if not 0 < server_learning_rate <= finite.LARGEST:
        raise ValueError(
            "server_learning_rate must be a positive float32. "
            f"Received: server_learning_rate={server_learning_rate}"
        )


def build_initial_weights(model: ModelSpec) -> Any:
    """A TFF computation that returns the initial weights."""

    @tff.tensorflow.computation
    def initial_weights() -> Any:
        return model.instantiate().weights

    return initial_weights


def _train_part(
    model: Model,
    part: parts.Part,
    train: Callable[..., Any],
    local: local_training.LocalTraining,
    weighting: str,
    weights: Any,
    record: Any,
    round_num: Any,
) -> tuple[Any, Any]:
    sums = train(weights, record, local.rate(round_num))
    # The zeros of what is not trained would else be made first and held through all steps.
    with tf.control_dependencies(tf.nest.flatten(sums)):
        return client_result(model, part, weights, record, weighting), sums


def build_client_work(
    model: ModelSpec,
    create_client_fns: Callable[[], Sequence[ClientFn]],
    tier_names: Sequence[str] = (),
) -> Any:
    """A `ClientWorkProcess` whose state is the number of the round."""

    @tff.tensorflow.computation(model.weights_type, np.int32, tff.SequenceType(model.record_type))
    def client_update(weights: Any, round_num: Any, dataset: Any) -> Any:
        client_fns = create_client_fns()

        @tf.function
        def run(weights: Any, round_num: Any, record: Any) -> Any:
            record = client_data.in_round(record, round_num)
            if tier_names or len(client_fns) > 1:
                _check_tier(record["tier"], len(client_fns))

            def call(client_fn: ClientFn) -> tuple[Any, Any]:
                # Defined here, so that AutoGraph converts what it calls.
                return client_fn(weights, record, round_num)

            branches = [functools.partial(call, client_fn) for client_fn in client_fns]
            one = len(branches) == 1
            result, sums = branches[0]() if one else tf.switch_case(record["tier"], branches)
            return result, _by_tier(sums, record["tier"], len(tier_names)) if tier_names else sums

        return run(weights, round_num, dataset.get_single_element())

    @tff.federated_computation
    def initialize() -> Any:
        return tff.federated_value(0, tff.SERVER)

    @tff.tensorflow.computation(np.int32)
    def next_round(round_num: Any) -> Any:
        return round_num + 1

    @tff.federated_computation(
        initialize.type_signature.result,
        tff.FederatedType(model.weights_type, tff.CLIENTS),
        tff.FederatedType(tff.SequenceType(model.record_type), tff.CLIENTS),
    )
    def next_fn(round_num: Any, weights: Any, data: Any) -> Any:
        at_clients = tff.federated_broadcast(round_num)
        result, sums = tff.federated_map(client_update, (weights, at_clients, data))
        metrics = train_metrics(sums, tier_names)
        return tff.templates.MeasuredProcessOutput(
            tff.federated_map(next_round, round_num), result, metrics
        )

    return tff.learning.templates.ClientWorkProcess(initialize, next_fn)


def client_weight(record: Any, weighting: str) -> Any:
    """What a client counts in a mean: its number of examples, or 1; 0 without examples."""
    examples = tf.cast(tf.shape(record["y"])[0], tf.float32)
    return examples if weighting == "examples" else tf.math.sign(examples)


def client_result(model: Model, part: parts.Part, initial: Any, record: Any, weighting: str) -> Any:
    """What a client sends: its delta, and for each variable its weight in the mean.

    A variable outside the client's part has weight 0, as has a client without examples. Where
    the part has a share of a variable only, the weight is an array for its last axis.
    """
    weight = client_weight(record, weighting)
    trained = {id(v) for v in (*part.variables, *part.statistics)}

    def delta(variable: Any, start: Any) -> Any:
        return variable - start if id(variable) in trained else tf.zeros_like(start)

    def weight_of(variable: Any) -> Any:
        share = tf.convert_to_tensor(part.share(variable), tf.float32)
        return weight * share if id(variable) in trained else tf.zeros_like(share)

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


def _check_tier(tier: Any, num_tiers: int) -> None:
    """Makes a record of a tier that is not there an error; `tf.switch_case` takes the last."""
    expected = f"a record's tier must be from 0 to {num_tiers - 1}. Received: tier="
    tf.debugging.Assert((tier >= 0) & (tier < num_tiers), [expected, tier])


def _by_tier(sums: Any, tier: Any, num_tiers: int) -> Any:
    """Adds the correct predictions and examples in a row of the client's tier, [tiers, 2]."""
    own = tf.one_hot(tier, num_tiers)[:, tf.newaxis]
    return collections.OrderedDict(sums, tiers=own * tf.stack([sums["correct"], sums["examples"]]))


def mean_metrics(totals: Any) -> Any:
    """Sums of loss, correct predictions and examples -> means."""
    loss = tf.math.divide_no_nan(totals["loss"], totals["examples"])
    accuracy = tf.math.divide_no_nan(totals["correct"], totals["examples"])
    return collections.OrderedDict(
        train_loss=loss, train_accuracy=accuracy, train_examples=totals["examples"]
    )


def train_metrics(sums: Any, tier_names: Sequence[str] = ()) -> Any:
    """Clients' sums of loss, correct predictions and examples -> means at the server."""

    @tff.tensorflow.computation(sums.type_signature.member)
    def finalize(totals: Any) -> Any:
        metrics = mean_metrics(totals)
        if "tiers" in totals:
            # NaN where no example of the tier was seen: there is no accuracy, not one of zero.
            of_tier = totals["tiers"][:, 0] / totals["tiers"][:, 1]
            for i, name in enumerate(tier_names):
                metrics[f"train_accuracy_{name}"] = of_tier[i]
        return metrics

    return tff.federated_map(finalize, tff.federated_sum(sums))


def build_finalizer(model: ModelSpec, server_learning_rate: float) -> Any:
    """A `FinalizerProcess`: weights + server_learning_rate * update, statistics included."""

    @tff.federated_computation
    def initialize() -> Any:
        return tff.federated_value((), tff.SERVER)

    @tff.tensorflow.computation(model.weights_type, model.weights_type)
    def apply_update(weights: Any, update: Any) -> Any:
        return tf.nest.map_structure(
            lambda w, d: w + server_learning_rate * d if w.dtype.is_floating else w, weights, update
        )

    at_server = tff.FederatedType(model.weights_type, tff.SERVER)

    @tff.federated_computation(initialize.type_signature.result, at_server, at_server)
    def next_fn(state: Any, weights: Any, update: Any) -> Any:
        return tff.templates.MeasuredProcessOutput(
            state,
            tff.federated_map(apply_update, (weights, update)),
            tff.federated_value((), tff.SERVER),
        )

    return tff.learning.templates.FinalizerProcess(initialize, next_fn)
