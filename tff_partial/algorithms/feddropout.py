"""Federated Dropout: a client trains random channels of every layer.

Caldas et al., Expanding the reach of federated learning by reducing client resource requirements,
2018; as Wang et al., FedDSE: distribution-aware sub-model extraction for federated learning over
resource-constrained devices, 2024, compare with it. With `layers` = dense it is FedDrop, which
drops neurons of hidden dense layers, as Wu et al., Straggler-resilient federated learning: tackling
computation heterogeneity with layer-wise partial model training in mobile edge network, 2023, use
it:

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

from tff_partial import tiers
from tff_partial.algorithms.declaration import Algorithm, Defaults
from tff_partial.core import checks
from tff_partial.core.aggregators import AggregatorLike
from tff_partial.core.model import ModelSpec
from tff_partial.core.types import LearningProcess
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
        checks.one_of("layers", self.layers, LAYERS)
        _layer_rates(self.keep_rates)

    def at_rate(self, model: ModelSpec, rate: float) -> submodel.Submodel:
        return submodel.create_submodel(
            model,
            rate,
            self.scaler,
            dense_only=self.layers == "dense",
            layer_rates=_layer_rates(self.keep_rates),
        )


def build(model: ModelSpec, params: Params, aggregator: AggregatorLike = None) -> LearningProcess:
    """Return the process."""
    return submodel.build(model, params, selection.random, aggregator=aggregator)


def _layer_rates(text: str) -> dict[str, float]:
    pairs = [entry.rpartition(":")[::2] for entry in text.split(",") if text]
    if not all(name for name, _ in pairs):
        raise ValueError(f"keep_rates must be like fc1:0.5,fc2:0.75. Received: keep_rates={text!r}")
    return {name: tiers.create(rate, are_rates=True).rate for name, rate in pairs}


ALGORITHM = Algorithm(
    name="feddropout",
    title="clients train random channels of every layer",
    paper="feddse",
    params=Params,
    build=build,
    cost=submodel.cost,
    needs=("tiers",),
    rule=lambda model, params: selection.random,
    tiers_are_rates=True,
    defaults=Defaults(clip_norm=1.0, normalization="static"),
)
