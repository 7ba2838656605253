"""VRL-SGD: periodic averaging with a correction that takes out the variance among the clients.

Liang et al., Variance reduced local SGD with lower communication complexity, 2019.

    delta_i <- 0 for every client
    for k = 1 to K:
        every active client i:  v_i <- mu * v_i + g(x_i) - (1 - mu) * delta_i
                                x_i <- x_i - eta * v_i
        if k mod tau = 0:
            u <- mean over the active clients of x_i
            every active client i:  delta_i <- (1 - mu) * (delta_i + (u - x_i) / (tau * eta))
                                    x_i <- u

Where other clients become active, a client keeps its delta_i until it is active again.

Differences from the paper: it has no momentum (mu = 0), and all its clients are always active. With
momentum every gradient counts 1 / (1 - mu) times in the end, so u - x_i holds tau / (1 - mu) of
them; with the factors above delta_i is the distance of the client's gradient from the mean, and
moves a client as far as without momentum. (The authors' code subtracts delta_i after the momentum
and averages the v_i; its delta_i is 1 / (1 - mu) times as large.) Lee et al., Partial model
averaging in federated learning, 2022, whose settings it takes, have no figures of it.
"""

from __future__ import annotations

import dataclasses
from typing import ClassVar

from tff_partial.algorithms.declaration import Algorithm, Defaults, whole_model_cost
from tff_partial.core.aggregators import AggregatorLike
from tff_partial.core.model import ModelSpec
from tff_partial.processes import averaging, parameter_subsets
from tff_partial.processes.stateful_rules import VARIATES_NEED_SGD


@dataclasses.dataclass(frozen=True)
class Params(averaging.AveragingParams):
    """Hyperparameters of VRL-SGD."""

    design: int = 1
    NEEDS_SGD: ClassVar[str] = VARIATES_NEED_SGD


def build(
    model: ModelSpec, params: Params, aggregator: AggregatorLike = None
) -> averaging.AveragingProcess:
    """Return the process."""
    layout = parameter_subsets.whole_model(model)
    rules = averaging.Rules(layout, [(0, params.interval(), 0)], variance_reduced=True)
    return averaging.build(model, params, rules, aggregator)


ALGORITHM = Algorithm(
    name="vrl_sgd",
    title="periodic averaging, variance reduced",
    paper="partial_averaging",
    params=Params,
    build=build,
    cost=whole_model_cost,
    needs=("population", "active"),
    refused=averaging.REFUSED,
    defaults=Defaults(local_steps=10),
)
