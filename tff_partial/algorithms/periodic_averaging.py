"""Periodic model averaging (local SGD).

The baseline of Lee et al., Partial model averaging in federated learning: performance guarantees
and benefits, 2022:

    for k = 1 to K:
        every client i:  x_i <- x_i - eta * g(x_i)
        if k mod tau = 0:
            every client i:  x_i <- mean over the clients of x_i

The same loop as `partial_averaging` with another schedule; tau is `--local_steps`. With `mu` > 0
clients follow FedProx's gradient, g(x_i) + mu * (x_i - the last average). Momentum and batch-norm
statistics stay on the clients, unlike in `fedavg`. Clients that become active take over the average
and the momentum of the client before them (with `reset_momentum` only the average); bytes are the
paper's, without this momentum.
"""

from __future__ import annotations

import dataclasses

from tff_partial.algorithms.declaration import Algorithm, Defaults, whole_model_cost
from tff_partial.core.aggregators import AggregatorLike
from tff_partial.core.model import ModelSpec
from tff_partial.processes import averaging, parameter_subsets


@dataclasses.dataclass(frozen=True)
class Params(averaging.ProximalParams):
    """Hyperparameters of periodic averaging."""

    design: int = 1


def build(
    model: ModelSpec, params: Params, aggregator: AggregatorLike = None
) -> averaging.AveragingProcess:
    """Return the process."""
    layout = parameter_subsets.whole_model(model)
    rules = averaging.Rules(layout, [(0, params.interval(), 0)], pull=params.mu)
    return averaging.build(model, params, rules, aggregator)


ALGORITHM = Algorithm(
    name="periodic_averaging",
    title="local models are averaged every tau steps",
    paper="partial_averaging",
    params=Params,
    build=build,
    cost=whole_model_cost,  # clients that become active get the average anyway
    needs=("population", "active"),
    refused=averaging.REFUSED,
    defaults=Defaults(local_steps=10),
)
