"""VRL-SGD: periodic averaging with a correction that takes out the variance among the clients.

Liang et al., Variance reduced local SGD with lower communication complexity, 2019.

    delta_i <- 0
    for k = 1 to K:
        every client i:  x_i <- x_i - eta * (g(x_i) - delta_i)
        if k mod tau = 0:
            u <- mean over the clients of x_i
            every client i:  delta_i <- delta_i + (u - x_i) / (tau * eta);  x_i <- u

Differences from the paper: momentum is possible, and then (u - x_i) / (tau * eta) is no longer a
mean of gradients. papers/partial_averaging.txt names the algorithm, but has no figures of it.
"""

from __future__ import annotations

import dataclasses

from tff_partial import averaging_process, costs
from tff_partial.algorithms import periodic_averaging
from tff_partial.model_spec import ModelSpec


@dataclasses.dataclass(frozen=True)
class Params(periodic_averaging.Params):
    """Hyperparameters of VRL-SGD."""


def build(model: ModelSpec, params: Params) -> averaging_process.AveragingProcess:
    """Returns the process."""
    layout = averaging_process.whole_model(model)
    rules = averaging_process.Rules(layout, [(0, params.interval(), 0)], variance_reduced=True)
    return averaging_process.build(model, params, rules)


def cost(model: ModelSpec, params: Params, tier: str) -> costs.ClientCost:
    """What a round costs a client."""
    return periodic_averaging.cost(model, params, tier)
