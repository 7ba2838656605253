"""FedRolex: the channels that a client trains roll on from round to round.

Alam et al., FedRolex: model-heterogeneous federated learning with rolling sub-model extraction,
2022; as Wang et al., FedDSE: distribution-aware sub-model extraction for federated learning over
resource-constrained devices, 2024, compare with it:

    for each round t:
        for each client k of the cohort, in parallel:
            kept <- channels t, t+1, ..., t + ceil(r_k m) - 1, modulo m, of the m of every group
            w_k  <- local SGD of the small model from w_t[kept]
        each element of w_{t+1} <- mean of w_k over the clients that hold it

In m rounds every channel is in the window equally often. Scaler, masked logits, static batch
normalisation and clipping are those of HeteroFL, on whose code FedRolex's is built.

Differences: none from the paper, whose window moves forward. Its public server code rolls the other
way: channels -t, -t+1, ..., -t + ceil(r_k m) - 1, modulo m. Only the paper's direction is
implemented here.
"""

from __future__ import annotations

from tff_partial.algorithms.declaration import Algorithm, Defaults
from tff_partial.core.aggregators import AggregatorLike
from tff_partial.core.model import ModelSpec
from tff_partial.core.types import LearningProcess
from tff_partial.processes import submodel
from tff_partial.submodels import selection

Params = submodel.HeteroParams


def build(model: ModelSpec, params: Params, aggregator: AggregatorLike = None) -> LearningProcess:
    """Return the process."""
    return submodel.build(model, params, selection.rolling, aggregator=aggregator)


ALGORITHM = Algorithm(
    name="fedrolex",
    title="clients train a window of channels that rolls on",
    paper="feddse",
    params=Params,
    build=build,
    cost=submodel.cost,
    needs=("tiers",),
    rule=lambda model, params: selection.rolling,
    tiers_are_rates=True,
    defaults=Defaults(clip_norm=1.0, normalization="static"),
)
