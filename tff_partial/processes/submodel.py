"""Processes whose clients train a sub-model: some channels of every layer.

    for each client, in parallel:
        kept <- the rule's channels, as many of each group as the client's rate allows
        w_k  <- extract(w, kept)                                      (submodels.py)
        d_k  <- local SGD of the small model from w_k, minus w_k      (narrow_models.py)
    each element of w <- w + mean of d over the clients that hold it; held by nobody, it stays

A tier is a rate: `strong` is 1; `moderate` and `weak` are 0.45 and 0.2, EmbracingFL's widths (table
10); `1/2` or `0.5` is half of the channels.
"""

from __future__ import annotations

import collections
import dataclasses
from collections.abc import Sequence
from typing import Any, Callable, NamedTuple, Optional

from tff_partial import capacities, costs
from tff_partial.core import local_training
from tff_partial.core.lazy import tf, tff
from tff_partial.core.model import Model, ModelSpec
from tff_partial.layers import parts
from tff_partial.processes import distillation, learning
from tff_partial.submodels import groups, narrowing, slicing
from tff_partial.submodels.groups import Channels


@dataclasses.dataclass(frozen=True)
class SubmodelParams(learning.TieredParams):
    """Hyperparameters that every algorithm with sub-models has; tiers are rates."""

    tiers: tuple[str, ...] = ("1", "1/2", "1/4", "1/8", "1/16")

    def __post_init__(self) -> None:
        super().__post_init__()
        for tier in self.tiers:
            capacities.rate_of(tier)


@dataclasses.dataclass(frozen=True)
class HeteroParams(SubmodelParams):
    """The same with what HeteroFL's reference code does beside.

    Attributes:
      scaler: Whether a small model divides activations by its rate while it trains.
      masked_logits: Whether logits of classes that a client lacks are 0 while it trains. The last
        layer's weights of a class are then averaged over the clients that have it.
      masked_rows: Whether the last layer's weights of a class are averaged over the clients that
        have it even if logits are not masked.
    """

    scaler: bool = True
    masked_logits: bool = True
    masked_rows: bool = True


class Request(NamedTuple):
    """What a rule may look at to choose a client's channels.

    Attributes:
      sizes: How many channels to keep of each group.
      weights: The server's `tff.learning.models.ModelWeights`.
      record: The client's data, with the seed of the round.
      round_num: Counted from 0.
    """

    sizes: Sequence[int]
    weights: Any
    record: Any
    round_num: Any


# Request -> indices of the channels to keep, int32 [size] for each group.
Rule = Callable[[Request], Sequence[Any]]


@dataclasses.dataclass(frozen=True)
class Submodel:
    """The small model of a rate.

    Attributes:
      rate: Share of the channels.
      sizes: Channels of each group.
      spec: The small model.
    """

    rate: float
    sizes: tuple[int, ...]
    spec: ModelSpec


def create_submodel(
    model: ModelSpec, tier: str, scaler: bool = False, rounding: str = "ceil", **options: Any
) -> Submodel:
    """The small model of a tier, with the options of `narrow_models.rates`."""
    rate, channels = capacities.rate_of(tier), groups.analyse(model)
    shares = narrowing.rates(channels, rate, **options)
    sizes = tuple(narrowing.sizes(channels, shares, rounding))
    return Submodel(rate, sizes, narrowing.create(model, sizes, shares if scaler else None))


def build(
    model: ModelSpec,
    params: SubmodelParams,
    small: Sequence[Submodel],
    create_rule: Callable[[Channels], Rule],
    masked_logits: bool = False,
    distill: Optional[distillation.Distillation] = None,
    create_part: Callable[[Sequence[Model], int], parts.Part] = lambda models, tier: (
        parts.everything(models[tier])
    ),
    masked_rows: bool = False,
) -> Any:
    """Returns the `tff.learning.templates.LearningProcess`.

    Args:
      model: The full model.
      params: Hyperparameters.
      small: The small model of each tier.
      create_rule: Called in the graph of a client; returns the rule.
      masked_logits: As in `HeteroParams`.
      distill: If given, the server distils the clients' models after every round.
      create_part: (The small models of all tiers, a tier's index) -> how that tier trains.
      masked_rows: As in `HeteroParams`.
    """
    channels = groups.analyse(model)
    masked = masked_logits and channels.classes > 1
    by_class = (masked_logits or masked_rows) and channels.classes > 1

    def part(tier: int, built: Sequence[Model]) -> parts.Part:
        found = create_part(built, tier)
        return _masked(found, channels.classes) if masked else found

    def create_client_fns() -> list[learning.ClientFn]:
        rule = create_rule(channels)
        built = [submodel.spec.instantiate() for submodel in small]

        def client_fn(tier: int) -> learning.ClientFn:
            chosen = part(tier, built)
            return _client_fn(channels, rule, small[tier], built[tier], chosen, params, by_class)

        return [_with_logits(client_fn(i), model, distill) for i, model in enumerate(built)]

    if distill is None:
        return learning.compose(model, create_client_fns, tier_names=params.tiers)
    return learning.compose(
        model,
        create_client_fns,
        tier_names=params.tiers,
        finalizer=distillation.build_finalizer(model, distill, channels.classes),
    )


def _client_fn(
    channels: Channels,
    rule: Rule,
    submodel: Submodel,
    model: Model,
    part: parts.Part,
    params: SubmodelParams,
    by_class: bool,
) -> learning.ClientFn:
    local = params.local
    train = local_training.build(model, part, local)
    whole = [k == g.size for k, g in zip(submodel.sizes, channels.groups)]

    def run(weights: Any, record: Any, round_num: Any) -> tuple[Any, Any]:
        values = [*weights.trainable, *weights.non_trainable]
        chosen = rule(Request(submodel.sizes, weights, record, round_num))
        kept = [None if all_of_it else k for k, all_of_it in zip(chosen, whole)]
        start = slicing.extract(channels, values, kept)
        sums = train(_weights(start, len(weights.trainable)), record, local.rate(round_num))
        delta = [v - w for v, w in zip([*model.trainable, *model.statistics], start)]
        classes = _present(record["y"], channels.classes) if by_class else None
        update, held = slicing.restore(channels, delta, kept, classes)
        weight = learning.client_weight(record, params.weighting)
        return tff.learning.templates.ClientResult(
            update=_weights(update, len(weights.trainable)),
            update_weight=_weights([weight * h for h in held], len(weights.trainable)),
        ), sums

    return run


def _with_logits(
    client_fn: learning.ClientFn, model: Model, distill: Optional[distillation.Distillation]
) -> learning.ClientFn:
    """The client sends the logits of its trained model on the server's examples as well."""
    if distill is None:
        return client_fn
    logits = distillation.build_logits(model, distill.examples)

    def run(weights: Any, record: Any, round_num: Any) -> tuple[Any, Any]:
        result, sums = client_fn(weights, record, round_num)
        weight = learning.client_weight(record, "uniform")
        return tff.learning.templates.ClientResult(
            update=collections.OrderedDict(weights=result.update, logits=logits()),
            update_weight=collections.OrderedDict(weights=result.update_weight, logits=weight),
        ), sums

    return run


def _masked(part: parts.Part, classes: int) -> parts.Part:
    """The part with the logits of classes that the client lacks set to 0."""

    def prepare(record: Any) -> Any:
        return part.prepare(record), _present(record["y"], classes)

    def batch(inputs: Any, indices: Any) -> Any:
        return part.batch(inputs[0], indices), inputs[1]

    def forward(inputs: Any) -> Any:
        return part.forward(inputs[0]) * inputs[1]

    return part._replace(prepare=prepare, batch=batch, forward=forward)


def _present(y: Any, classes: int) -> Any:
    """1.0 for each class that is among the labels, else 0.0."""
    return tf.minimum(tf.math.unsorted_segment_sum(tf.ones_like(y, tf.float32), y, classes), 1.0)


def _weights(values: Sequence[Any], trainable: int) -> Any:
    ModelWeights = tff.learning.models.ModelWeights
    return ModelWeights(list(values[:trainable]), list(values[trainable:]))


def cost(model: ModelSpec, submodel: Submodel, batch_size: int) -> costs.ClientCost:
    """What a round costs a client that trains the small model and sends nothing else."""
    return costs.narrow(model, submodel.spec, batch_size)
