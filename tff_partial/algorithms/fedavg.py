"""FedAvg: every client trains the whole model.

McMahan et al., Communication-efficient learning of deep networks from decentralized data, 2017.

    for each round t:
        for each client k of the cohort S_t, in parallel:
            w_k <- local SGD from w_t on the client's data
        w_{t+1} <- w_t + eta_s * sum_k(p_k * (w_k - w_t)) / sum_k(p_k)

with p_k = n_k, the client's number of examples, or p_k = 1.

Differences from the paper: local momentum, weight decay and a server learning rate eta_s are
possible; batch-norm statistics are averaged like weights.
"""

from __future__ import annotations

import dataclasses

from tff_partial.algorithms.declaration import Algorithm, whole_model_cost
from tff_partial.core.aggregators import AggregatorLike
from tff_partial.core.local_training import LocalTraining
from tff_partial.core.model import ModelSpec
from tff_partial.core.server_optimizers import ServerOptimizer
from tff_partial.core.types import LearningProcess
from tff_partial.processes import learning


@dataclasses.dataclass(frozen=True)
class Params:
    """Hyperparameters of FedAvg.

    Attributes:
      local: How a client trains.
      weighting: Weight of a client in the mean: `examples` (p_k = n_k) or `uniform` (p_k = 1).
      server_learning_rate: Learning rate of the server (eta_s).
      server: What the server makes of the mean, in place of that.
    """

    local: LocalTraining = dataclasses.field(default_factory=lambda: LocalTraining(epochs=1))
    weighting: str = "examples"
    server_learning_rate: float = 1.0
    server: ServerOptimizer = learning.SUM

    def __post_init__(self) -> None:
        learning.check_mean(self.weighting)
        if self.server_learning_rate != 1:
            self.server.check_sum("where server_learning_rate is given as well")
        self.server_optimizer()  # checks the rate

    def server_optimizer(self) -> ServerOptimizer:
        """Return what the server makes of the mean."""
        if self.server_learning_rate == 1:
            return self.server
        return ServerOptimizer(learning_rate=self.server_learning_rate)


def build(model: ModelSpec, params: Params, aggregator: AggregatorLike = None) -> LearningProcess:
    """Return the process."""
    return learning.build_learning_process(
        model,
        params.local,
        weighting=params.weighting,
        aggregator=aggregator,
        server=params.server_optimizer(),
    )


ALGORITHM = Algorithm(
    name="fedavg",
    title="every client trains the whole model",
    paper="",
    params=Params,
    build=build,
    cost=whole_model_cost,
)
