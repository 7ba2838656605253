"""FIARSE: a client trains the largest weights, element by element.

Wu et al., FIARSE: model-heterogeneous federated learning via importance-aware submodel extraction,
2024; with the details of its public code. With r_k the share of the weights that a client keeps:

    for each round t:
        for each client k of the cohort, in parallel:
            theta_k <- the magnitude that a share r_k of the elements of w_t reaches
            w_k     <- w_t where |w_t| >= theta_k
            local SGD of the loss at w_k * M(w_k), M(w) = 1 where |w| >= theta_k, else 0, with
                dM / d|w| = 2 theta_k / (|w| + theta_k)^2 where M = 1, else 0
        each element of w_{t+1} <- mean of w_k over the clients that hold it

The threshold is one of the whole model (`threshold` = global) or one of each layer (local).
Training does not become faster: weights that are left out are zeros. Costs count the held weights
as memory and bytes, down with a bit for each weight that says whether it is held; the operations
are those of the whole model.

`form` = channel is ours, not the paper's: a client trains the channels whose weights have the
largest mean magnitude, in a smaller model, as in HeteroFL. Tiers are rates of channels then.

Differences from the paper: who keeps everything has the threshold 0, so that it trains as in FedAvg
(in the code: the smallest magnitude). The code counts an element as held by a client if it has
changed, here if it was above the threshold at first. The code's layers are stages of the ResNet,
here layers. Static batch normalisation, as in the code, is the default.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from typing import Optional

from tff_partial import costs
from tff_partial.algorithms.declaration import Algorithm, Defaults
from tff_partial.core import checks
from tff_partial.core.aggregators import AggregatorLike, as_aggregator
from tff_partial.core.model import ModelSpec
from tff_partial.core.types import LearningProcess
from tff_partial.processes import deployment, learning, sparse_clients, submodel
from tff_partial.submodels import selection
from tff_partial.tiers import Tier, as_tiers

FORMS = ("element", "channel")
REFUSED = {"dp": "what clients hold follows from the weights, and is not known before the round"}


@dataclasses.dataclass(frozen=True)
class Params(submodel.SubmodelParams):
    """Hyperparameters of FIARSE.

    Attributes:
      form: What a client keeps: single weights (`element`), or `channel`s in a smaller model.
      threshold: Of elements: one magnitude for the whole model (`global`) or for each layer
        (`local`).
    """

    tiers: tuple[Tier, ...] = as_tiers(("1", "1/4", "1/16", "1/64"), are_rates=True)
    form: str = "element"
    threshold: str = "global"

    def __post_init__(self) -> None:
        super().__post_init__()
        checks.one_of("form", self.form, FORMS)
        checks.one_of("threshold", self.threshold, sparse_clients.THRESHOLDS)

    def cost_at(self, model: ModelSpec, rate: float) -> costs.ClientCost:
        if self.form == "channel":
            return super().cost_at(model, rate)
        masked = sparse_clients.count(model)
        return costs.sparse(model, masked, max(1, int(rate * masked)), self.local.batch_size)


def build(model: ModelSpec, params: Params, aggregator: AggregatorLike = None) -> LearningProcess:
    """Return the process."""
    combined = as_aggregator(aggregator)
    combined.check(REFUSED)
    if params.form == "channel":
        return submodel.build(model, params, selection.magnitude, aggregator=combined)
    combined.check_weighting(params.weighting)
    rates = [params.rate_of(model, tier) for tier in params.tiers]

    def create_client_fns(tiers: Sequence[int]) -> list[learning.ClientFn]:
        built = model.instantiate(params.local.precision, initial=False)
        own = params.threshold, params.local, params.weighting
        return [sparse_clients.create(built, rates[tier], *own) for tier in tiers]

    return learning.compose(
        model, create_client_fns, len(rates), params.server, combined, params.tier_names
    )


def _rule(model: ModelSpec, params: Params) -> Optional[selection.CreateRule]:
    return selection.magnitude if params.form == "channel" else None


def _deployed(model: ModelSpec, params: Params, tier: Tier) -> Optional[deployment.Deployment]:
    """Return the model of the weights that clients of a tier keep."""
    return deployment.sparse(model, params.rate_of(model, tier), params.threshold)


ALGORITHM = Algorithm(
    name="fiarse",
    title="clients train the largest weights",
    paper="feddse",
    params=Params,
    build=build,
    cost=submodel.cost,
    needs=("tiers",),
    rule=_rule,
    deployed=_deployed,
    tiers_are_rates=True,
    refused=REFUSED,
    defaults=Defaults(normalization="static"),
)
