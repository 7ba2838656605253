"""Width reduction: HeteroFL and FjORD as Lee et al. compare EmbracingFL with them.

Lee et al., Embracing federated learning, 2024, section 4.3 and appendix 6.4: a moderate client
drops 55 % of the channels of every layer, a weak one 80 %; the first floor(r_k m) are kept.

    for each round t:
        for each client k of the cohort, in parallel:
            kept <- the first floor(r_k m) of the m channels of every group, at least one
            w_k  <- tau steps of local SGD of the small model from w_t[kept]
        each element of w_{t+1} <- mean of w_k over the clients that hold it

Batch normalisation is global as anywhere else, or static (--normalization=static): table 9 of the
paper. Nothing else of HeteroFL's code is added.
"""

from __future__ import annotations

import dataclasses
from typing import Any

from tff_partial import costs
from tff_partial.core.model import ModelSpec
from tff_partial.processes import submodel
from tff_partial.submodels import selection


@dataclasses.dataclass(frozen=True)
class Params(submodel.SubmodelParams):
    """Hyperparameters of width reduction."""

    tiers: tuple[str, ...] = ("strong", "moderate", "weak")


def build(model: ModelSpec, params: Params) -> Any:
    """Returns the `tff.learning.templates.LearningProcess`."""
    small = [_submodel(model, tier) for tier in params.tiers]
    return submodel.build(model, params, small, selection.ordered)


def cost(model: ModelSpec, params: Params, tier: str) -> costs.ClientCost:
    """What a round costs a client of the tier."""
    return submodel.cost(model, _submodel(model, tier), params.local.batch_size)


def _submodel(model: ModelSpec, tier: str) -> submodel.Submodel:
    return submodel.create_submodel(model, tier, rounding="floor")
