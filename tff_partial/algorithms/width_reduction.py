"""Width reduction: HeteroFL and FjORD as Lee et al. compare EmbracingFL with them.

Lee et al., Embracing federated learning: enabling weak client participation via partial model
training, 2024, section 4.3 and appendix 6.4: a moderate client drops 55 % of the channels of every
layer, a weak one 80 %; the first floor(r_k m) are kept.

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

from tff_partial.algorithms.declaration import Algorithm
from tff_partial.core.aggregators import AggregatorLike
from tff_partial.core.model import ModelSpec
from tff_partial.core.types import LearningProcess
from tff_partial.processes import submodel
from tff_partial.submodels import selection
from tff_partial.tiers import NAMES, Tier, as_tiers


@dataclasses.dataclass(frozen=True)
class Params(submodel.SubmodelParams):
    """Hyperparameters of width reduction."""

    tiers: tuple[Tier, ...] = as_tiers(NAMES)

    def at_rate(self, model: ModelSpec, rate: float) -> submodel.Submodel:
        return submodel.create_submodel(model, rate, rounding="floor")


def build(model: ModelSpec, params: Params, aggregator: AggregatorLike = None) -> LearningProcess:
    """Return the process."""
    return submodel.build(model, params, selection.ordered, aggregator=aggregator)


ALGORITHM = Algorithm(
    name="width_reduction",
    title="HeteroFL's plain form, EmbracingFL's comparison",
    paper="embracingfl",
    params=Params,
    build=build,
    cost=submodel.cost,
    needs=("tiers",),
    rule=lambda model, params: selection.ordered,
    tiers_are_rates=True,
)
