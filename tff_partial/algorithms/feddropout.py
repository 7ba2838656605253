"""Federated Dropout: a client trains random channels of every layer.

Caldas et al., Expanding the reach of federated learning by reducing client resource requirements,
2018, as Wang et al. (FedDSE, papers/feddse.txt) compare with it; with `layers` = dense it is
FedDrop as Wu et al. (FedPMT, papers/fedpmt.txt) use it, which drops neurons of hidden dense layers:

    for each round t:
        for each client k of the cohort, in parallel:
            kept <- ceil(r_k m) random ones of the m channels of every group
            w_k  <- local SGD of the small model from w_t[kept]
        each element of w_{t+1} <- mean of w_k over the clients that hold it

Scaler, masked logits, static batch normalisation and clipping are those of HeteroFL, so that only
the choice of channels differs.

Differences from the papers: Caldas et al. draw one sub-model for all clients of a round; here, as
in FedDSE and FedDrop, each client has its own. FedDrop keeps each neuron with probability r_k, here
exactly ceil(r_k m) are kept.
"""

from __future__ import annotations

import dataclasses
from typing import Any

from tff_partial import capacities, costs
from tff_partial.core.model import ModelSpec
from tff_partial.processes import submodel
from tff_partial.submodels import selection

LAYERS = ("all", "dense")


@dataclasses.dataclass(frozen=True)
class Params(submodel.HeteroParams):
    """Hyperparameters of Federated Dropout.

    Attributes:
      layers: Neurons of `all` layers are dropped, or those of hidden `dense` ones.
      keep_rates: Rates of single layers in place of the client's, such as fc1:0.5,fc2:0.75, for
        clients that do not keep everything.
    """

    layers: str = "all"
    keep_rates: str = ""
    masked_rows: bool = False  # neither paper has it, and FedDrop masks no logits either

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.layers not in LAYERS:
            raise ValueError(f"layers must be one of {LAYERS}. Received: layers={self.layers!r}")
        _layer_rates(self.keep_rates)


def build(model: ModelSpec, params: Params) -> Any:
    """Returns the `tff.learning.templates.LearningProcess`."""
    small = [_submodel(model, params, tier) for tier in params.tiers]
    return submodel.build(
        model,
        params,
        small,
        selection.random,
        params.masked_logits,
        masked_rows=params.masked_rows,
    )


def cost(model: ModelSpec, params: Params, tier: str) -> costs.ClientCost:
    """What a round costs a client of the tier."""
    return submodel.cost(model, _submodel(model, params, tier), params.local.batch_size)


def _submodel(model: ModelSpec, params: Params, tier: str) -> submodel.Submodel:
    return submodel.create_submodel(
        model,
        tier,
        params.scaler,
        dense_only=params.layers == "dense",
        layer_rates=_layer_rates(params.keep_rates),
    )


def _layer_rates(text: str) -> dict[str, float]:
    pairs = [entry.rpartition(":")[::2] for entry in text.split(",") if text]
    if not all(name for name, _ in pairs):
        raise ValueError(f"keep_rates must be like fc1:0.5,fc2:0.75. Received: keep_rates={text!r}")
    return {name: capacities.rate_of(rate) for name, rate in pairs}
