"""FjORD: ordered dropout; the width is drawn anew for every local step.

Horvath et al., FjORD: fair and accurate federated learning under heterogeneous targets with
ordered dropout, 2021, as papers/embracingfl.txt and papers/feddse.txt describe it. With the rates
p_1 < ... < p_n of a run and r_k the largest that client k can hold:

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
from collections.abc import Sequence
from typing import Any

from tff_partial import capacities, costs
from tff_partial.core.model import Model, ModelSpec
from tff_partial.layers import parts
from tff_partial.processes import submodel
from tff_partial.submodels import groups, selection
from tff_partial.submodels import nested as nested_models


@dataclasses.dataclass(frozen=True)
class Params(submodel.SubmodelParams):
    """Hyperparameters of FjORD."""


def build(model: ModelSpec, params: Params) -> Any:
    """Returns the `tff.learning.templates.LearningProcess`."""
    small = [submodel.create_submodel(model, tier) for tier in params.tiers]
    channels = groups.analyse(model)

    def create_part(models: Sequence[Model], tier: int) -> parts.Part:
        held = [i for i, other in enumerate(small) if other.rate <= small[tier].rate]
        nested = [(models[i], small[i].sizes) for i in held]
        resized = groups.resized(channels, small[tier].sizes)
        return nested_models.create_part(resized, models[tier], nested)

    return submodel.build(model, params, small, selection.ordered, create_part=create_part)


def cost(model: ModelSpec, params: Params, tier: str) -> costs.ClientCost:
    """What a round costs a client of the tier, on average over the widths that it draws."""

    def of(name: str) -> costs.ClientCost:
        small = submodel.create_submodel(model, name)
        return submodel.cost(model, small, params.local.batch_size)

    limit = capacities.rate_of(tier)
    drawn = [of(other) for other in params.tiers if capacities.rate_of(other) <= limit]
    means = {
        name: sum(getattr(cost, name) for cost in drawn) // len(drawn)
        for name in ("forward", "backward", "update")
    }
    return dataclasses.replace(of(tier), **means)
