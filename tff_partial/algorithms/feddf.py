"""FedDF: the server distils the ensemble of the clients' models into their mean.

Lin et al., Ensemble distillation for robust model fusion in federated learning, 2020, algorithms 1
and 3; the baseline of figure 5d of Wang et al., FedDSE: distribution-aware sub-model extraction for
federated learning over resource-constrained devices, 2024. With U the server's unlabelled examples:

    for each round t:
        for each client k of the cohort S_t, in parallel:
            w_k <- local SGD from w_t
        w <- sum_k(n_k w_k) / sum_k(n_k)
        for each of N steps, with a batch d of U:
            w <- Adam step of KL(softmax(mean over k of f(w_k, d)), softmax(f(w, d)))
        w_{t+1} <- w

A strong client trains the whole model. Tiers are rates: another client trains the first ceil(r_k m)
of the m channels of every group, as in HeteroFL. Each element of the mean is then over the clients
that hold it, and all sub-models are in the ensemble. HeteroFL's scaler and its masks of absent
classes are off by default.

Differences from the paper: its clients of different kinds have models of their own architectures,
one server model for each; here they are sub-models of one. U are examples of all clients alike,
held back from nobody; the paper takes another data set, or a generator's. Adam's rate stays, where
the paper anneals it and stops early on a validation set. No client's model is dropped.
"""

from __future__ import annotations

import dataclasses
from typing import Callable, Optional

from tff_partial.algorithms.declaration import Algorithm
from tff_partial.core.aggregators import AggregatorLike
from tff_partial.core.model import ModelSpec
from tff_partial.core.types import Array, LearningProcess
from tff_partial.processes import distillation, submodel
from tff_partial.submodels import selection


@dataclasses.dataclass(frozen=True)
class Params(submodel.HeteroParams):
    """Hyperparameters of FedDF.

    Attributes:
      examples: Number of unlabelled examples of the server; 0: it does not distil.
      steps: Steps of the distillation after every round (N).
      learning_rate: Learning rate of the distillation's Adam.
      server_examples: Number -> that many unlabelled examples, as clients hold theirs.
    """

    weighting: str = "examples"
    scaler: bool = False
    masked_logits: bool = False
    masked_rows: bool = False
    examples: int = 1000
    steps: int = 50
    learning_rate: float = 1e-3
    server_examples: Optional[Callable[[int], Array]] = dataclasses.field(
        default=None, compare=False
    )

    def __post_init__(self) -> None:
        super().__post_init__()
        distillation.check(self.examples, self.steps, self.learning_rate)


def build(model: ModelSpec, params: Params, aggregator: AggregatorLike = None) -> LearningProcess:
    """Return the process."""
    distill = distillation.create(
        params.server_examples, params.examples, params.steps, params.learning_rate
    )
    return submodel.build(model, params, selection.ordered, distill=distill, aggregator=aggregator)


ALGORITHM = Algorithm(
    name="feddf",
    title="the server distils the ensemble of the clients' models",
    paper="feddse",
    params=Params,
    build=build,
    cost=submodel.cost,
    needs=("tiers", "server_examples"),
    rule=lambda model, params: selection.ordered,
    tiers_are_rates=True,
    refused=distillation.REFUSED,
)
