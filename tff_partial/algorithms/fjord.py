"""FjORD: ordered dropout; the width is drawn anew for every local step.

Horvath et al., FjORD: fair and accurate federated learning under heterogeneous targets with
ordered dropout, 2021; as Lee et al. (Embracing federated learning, 2024) and Wang et al. (FedDSE,
2024) describe it. With the rates p_1 < ... < p_n of a run and r_k the largest that client k can
hold:

    for each round t:
        for each client k of the cohort, in parallel:
            w_k <- w_t[the first ceil(r_k m) channels of every group]
            for each local step:
                p   <- one of the rates up to r_k, uniformly
                w_k <- w_k - eta * gradient of the first ceil(p m) channels' model, 0 elsewhere
        each element of w_{t+1} <- mean of w_k over the clients that hold it

Momentum and weight decay act on the whole of w_k, as they would with a padded gradient.

Differences from the paper: no knowledge distillation between a client's widths (EmbracingFL leaves
it out as well); batch-norm statistics are those of the channels, whatever the width was, where
FjORD keeps a set for each width.
"""

from __future__ import annotations

import dataclasses

from tff_partial import costs
from tff_partial.algorithms.declaration import Algorithm
from tff_partial.core.aggregators import AggregatorLike
from tff_partial.core.model import ModelSpec
from tff_partial.core.types import LearningProcess
from tff_partial.layers import parts
from tff_partial.processes import submodel
from tff_partial.submodels import groups, selection
from tff_partial.submodels import nested as nested_models
from tff_partial.tiers import Tier

Params = submodel.SubmodelParams


def build(model: ModelSpec, params: Params, aggregator: AggregatorLike = None) -> LearningProcess:
    """Return the process."""
    small = [params.submodel(model, tier) for tier in params.tiers]
    channels = groups.analyse(model)

    def create_part(model_of: submodel.ModelOf, tier: int) -> parts.Part:
        held = [i for i, other in enumerate(small) if other.rate <= small[tier].rate]
        nested = [(model_of(i), small[i].sizes) for i in held]
        resized = groups.resized(channels, small[tier].sizes)
        return nested_models.create_part(resized, model_of(tier), nested)

    return submodel.build(model, params, selection.ordered, create_part, aggregator=aggregator)


def cost(model: ModelSpec, params: Params, tier: Tier) -> costs.ClientCost:
    """Return a client's cost of a round, on average over the widths that it draws."""
    widest = params.rate_of(model, tier)
    held = [other for other in params.tiers if params.rate_of(model, other) <= widest]
    drawn = [submodel.cost(model, params, other) for other in held]
    means = {
        name: sum(getattr(cost, name) for cost in drawn) // len(drawn)
        for name in ("forward", "backward", "update")
    }
    return dataclasses.replace(submodel.cost(model, params, tier), **means)


ALGORITHM = Algorithm(
    name="fjord",
    title="ordered dropout: the width is drawn every local step",
    paper="feddse",
    params=Params,
    build=build,
    cost=cost,
    needs=("tiers",),
    rule=lambda model, params: selection.ordered,
    tiers_are_rates=True,
)
