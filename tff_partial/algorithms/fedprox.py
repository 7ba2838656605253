"""FedProx: FedAvg whose clients are held back to the server's model.

Li et al., Federated optimization in heterogeneous networks, 2020; as the appendix of Li et al.,
Model fusion from unauthorized clients in federated learning, 2022, runs it.

    for each client k of the cohort S_t, in parallel:
        w_k <- local SGD from w_t on  f_k(w) + mu / 2 * |w - w_t|^2
    w_{t+1} <- mean of w_k

Differences from the paper: clients solve their problem by a fixed number of steps or passes, not
to a given accuracy.
"""

from __future__ import annotations

import dataclasses

from tff_partial.algorithms.declaration import Algorithm, whole_model_cost
from tff_partial.core import checks
from tff_partial.core.aggregators import AggregatorLike
from tff_partial.core.local_training import LocalTraining
from tff_partial.core.model import ModelSpec
from tff_partial.core.server_optimizers import ServerOptimizer
from tff_partial.core.types import LearningProcess
from tff_partial.processes import learning


@dataclasses.dataclass(frozen=True)
class Params:
    """Hyperparameters of FedProx.

    Attributes:
      local: How a client trains.
      mu: Weight of the proximal term.
      weighting: Weight of a client in the mean: `examples` or `uniform`.
      server: What the server makes of the mean.
    """

    local: LocalTraining = dataclasses.field(default_factory=lambda: LocalTraining(epochs=1))
    mu: float = 1e-4
    weighting: str = "examples"
    server: ServerOptimizer = learning.SUM

    def __post_init__(self) -> None:
        checks.finite_fields(self)
        learning.check_mean(self.weighting)
        if self.mu < 0:
            raise ValueError(f"mu must not be negative. Received: mu={self.mu}")


def build(model: ModelSpec, params: Params, aggregator: AggregatorLike = None) -> LearningProcess:
    """Return the process."""
    return learning.build_learning_process(
        model,
        params.local,
        pull=params.mu,
        weighting=params.weighting,
        aggregator=aggregator,
        server=params.server,
    )


ALGORITHM = Algorithm(
    name="fedprox",
    title="clients are held back to the server's model",
    paper="fedumf_appendix",
    params=Params,
    build=build,
    cost=whole_model_cost,
)
