"""Processes whose clients train a sub-model: some channels of every layer.

    for each client, in parallel:
        kept <- the rule's channels, as many of each group as the client's rate allows
        w_k  <- extract(w, kept)                                      (submodels.slicing)
        d_k  <- local SGD of the small model from w_k, minus w_k      (submodels.narrowing)
    each element of w <- w + mean of d over the clients that hold it; held by nobody, it stays

A tier is a rate: `strong` is 1; `moderate` and `weak` are 0.45 and 0.2, EmbracingFL's widths (table
10); `1/2` or `0.5` is half of the channels; a budget such as `memory:0.25` is the largest that fits
(costs.budgets). Algorithms differ in the rule (submodels.selection) and
in the small model of a tier (`SubmodelParams.submodel`).
"""

from __future__ import annotations

import dataclasses
import functools
from collections.abc import Sequence
from typing import Any, Callable, ClassVar, Optional

from tff_partial import costs
from tff_partial.core.aggregators import AggregatorLike, as_aggregator
from tff_partial.core.model import Model, ModelSpec
from tff_partial.core.types import LearningProcess, Structure, Tensor
from tff_partial.layers import parts
from tff_partial.processes import distillation, learning
from tff_partial.processes import submodel_clients as clients
from tff_partial.processes.submodel_clients import Submodel
from tff_partial.submodels import groups, narrowing, selection, slicing
from tff_partial.tiers import Tier, as_tiers

# The small model of a tier, built when it is first asked for.
ModelOf = Callable[[int], Model]


def create_submodel(
    model: ModelSpec, rate: float, scaler: bool = False, rounding: str = "ceil", **options: Any
) -> Submodel:
    """Return the small model of a rate, with the options of `narrowing.rates`."""
    channels = groups.analyse(model)
    shares = narrowing.rates(channels, rate, **options)
    sizes = tuple(narrowing.sizes(channels, shares, rounding))
    return Submodel(rate, sizes, narrowing.create(model, sizes, shares if scaler else ()))


def masked(model: ModelSpec, small: Submodel, scaler: bool = False) -> Submodel:
    """Return the same with a model of full size, in which the other channels are to be 0."""
    whole = [group.size for group in groups.analyse(model).groups]
    scalers = [small.rate] * len(whole) if scaler else ()
    return small._replace(spec=narrowing.create(model, whole, scalers))


@dataclasses.dataclass(frozen=True)
class SubmodelParams(learning.TieredParams):
    """Hyperparameters that every algorithm with sub-models has; tiers are rates."""

    tiers_are_rates: ClassVar[bool] = True
    tiers: tuple[Tier, ...] = as_tiers(("1", "1/2", "1/4", "1/8", "1/16"), are_rates=True)

    def submodel(self, model: ModelSpec, tier: Tier) -> Submodel:
        """Return the small model that clients of the tier train."""
        return self.at_rate(model, self.rate_of(model, tier))

    def at_rate(self, model: ModelSpec, rate: float) -> Submodel:
        """Return the small model of a rate."""
        return create_submodel(model, rate)

    def cost_at(self, model: ModelSpec, rate: float) -> costs.ClientCost:
        """Return what a round costs a client that trains the small model of a rate."""
        return costs.narrow(model, self.at_rate(model, rate).spec, self.local.batch_size)

    def rate_of(self, model: ModelSpec, tier: Tier) -> float:
        """Return the rate of a tier; of a budget it is looked for once for a `ModelSpec`."""
        if not tier.is_budget:
            return tier.rate
        found = vars(model).setdefault("_rates", {})
        if (self, tier) not in found:
            cost = functools.partial(self.cost_at, model)
            found[self, tier] = costs.rate_of(tier, model, self.local.batch_size, cost)
        return found[self, tier]

    def masks(self) -> tuple[bool, bool]:
        """Return whether classes that a client lacks are masked: its logits, its rows."""
        return False, False


@dataclasses.dataclass(frozen=True)
class HeteroParams(SubmodelParams):
    """The same with what HeteroFL's reference code adds.

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

    def at_rate(self, model: ModelSpec, rate: float) -> Submodel:
        return create_submodel(model, rate, self.scaler)

    def masks(self) -> tuple[bool, bool]:
        return self.masked_logits, self.masked_logits or self.masked_rows


def build(
    model: ModelSpec,
    params: SubmodelParams,
    create_rule: selection.CreateRule,
    create_part: Callable[[ModelOf, int], parts.Part] = lambda model_of, tier: (
        parts.everything(model_of(tier))
    ),
    distill: Optional[distillation.Distillation] = None,
    outputs_only: bool = False,
    aggregator: AggregatorLike = None,
) -> LearningProcess:
    """Return the process.

    Args:
      model: The full model.
      params: Hyperparameters.
      create_rule: Called in the graph of a client; returns the rule.
      create_part: (the small model of each tier, a tier's index) -> how that tier trains.
      distill: If given, the server distils the clients' models after every round.
      outputs_only: Whether clients train a model of full size whose other channels are masked
        (`submodel_clients.masked`); `params.submodel` has its `spec` then.
      aggregator: See `learning.build_learning_process`.
    """
    combined = as_aggregator(aggregator)
    combined.check_weighting(params.weighting)
    if distill is not None:
        combined.check(distillation.REFUSED)
        params.server.check_sum("where the server distils: its Adam makes the step")
    channels = groups.analyse(model)
    create_client_fn = clients.masked if outputs_only else clients.narrow
    small = [params.submodel(model, tier) for tier in params.tiers]
    is_public = combined.NAME == "dp"
    public = [selection.expected(create_rule, channels, s.sizes) for s in small if is_public]
    hides_absent, by_class = (mask and channels.classes > 1 for mask in params.masks())

    def create_client_fns(tiers: Sequence[int]) -> list[learning.ClientFn]:
        rule = create_rule(channels)
        precision = params.local.precision

        @functools.cache
        def model_of(tier: int) -> Model:
            return small[tier].spec.instantiate(precision, initial=False)

        def client_fn(tier: int) -> learning.ClientFn:
            part = create_part(model_of, tier)
            part = clients.without_absent(part, channels.classes) if hides_absent else part
            own = small[tier], model_of(tier), part
            return create_client_fn(channels, rule, *own, params, by_class)

        if distill is None:
            return [client_fn(tier) for tier in tiers]
        is_exact = precision == "float32"
        exact = [model_of(t) if is_exact else small[t].spec.instantiate() for t in tiers]
        return [
            clients.with_logits(client_fn(t), model_of(t), each, distill)
            for t, each in zip(tiers, exact)
        ]

    def held(tier: int, round_num: Tensor) -> Structure:
        shares = slicing.held(channels, public[tier](round_num))
        return clients.as_weights(shares, len(channels.template.trainable))

    finalizer = distill and distillation.build_finalizer(model, distill, channels.classes)
    return learning.compose(
        model,
        create_client_fns,
        len(small),
        params.server,
        combined,
        tier_names=params.tier_names,
        finalizer=finalizer,
        is_kept=distill is None,  # the examples are in the graph
        held=held,
    )


def cost(model: ModelSpec, params: SubmodelParams, tier: Tier) -> costs.ClientCost:
    """Return what a round costs a client of the tier."""
    return params.cost_at(model, params.rate_of(model, tier))
