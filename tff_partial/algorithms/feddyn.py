"""FedDyn: each client's objective is corrected by the sum of its past updates.

Acar et al., Federated learning based on dynamic regularization, 2021; as the appendix of Li et al.,
Model fusion from unauthorized clients in federated learning, 2022, runs it.

    l_i <- 0 for every client;  D <- 0
    for each round:
        for each client i of the cohort S, in parallel:
            y <- local SGD from x on  f_i(w) + <l_i, w> + alpha / 2 * |w - x|^2
            l_i <- l_i + alpha * (y - x)
        D <- D + 1/N * sum of (y - x)
        x <- mean of y + D

The paper's gradient of f_i is -l_i and its h is -alpha D. The mean of the last local models of all
clients, those that never took part included, is evaluated as `all_clients`.

D is the sum of all displacements; where the loss is flat only alpha damps it. Demos, of 30 rounds
where the papers have 300, take alpha = 0.1 in place of 0.01 (docs/studies.md).

Differences from the paper: its public code divides alpha by a client's share of the examples (its
number over the mean), here all have the same alpha. Clipping (10 there) is `--clip_norm`; its
weight decay (of all parameters, after clipping) is `--weight_decay` with `--weight_decay_on=all`.
There alpha * w is part of that weight decay and so not clipped; here the whole gradient of the
added terms is.
"""

from __future__ import annotations

import collections
import dataclasses
from typing import ClassVar

from tff_partial.algorithms.declaration import Algorithm, Defaults, whole_model_cost
from tff_partial.core.aggregators import AggregatorLike
from tff_partial.core.model import ModelSpec
from tff_partial.core.types import Structure
from tff_partial.core.vectors import Vector
from tff_partial.processes import stateful, uploads
from tff_partial.processes.stateful_rules import DRIFT_NEEDS_SUM, Client, Server, Update


@dataclasses.dataclass(frozen=True)
class Params(stateful.StatefulParams):
    """Hyperparameters of FedDyn.

    Attributes:
      alpha: Weight of the regularisation; 0.1 in demos.
    """

    alpha: float = 1e-2
    NEEDS_SUM: ClassVar[str] = DRIFT_NEEDS_SUM

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.alpha < 0:
            raise ValueError(f"alpha must not be negative. Received: alpha={self.alpha}")


def build(
    model: ModelSpec, params: Params, aggregator: AggregatorLike = None
) -> stateful.StatefulProcess:
    """Return the process."""
    population = params.check_population()

    def train(client: Client) -> Update:
        l_i, last = client.state["slope"], client.state["model"]
        y, l_i = client.train(client.weights, l_i)  # alpha is the pull: l_i moves along with w
        return Update(y, state=collections.OrderedDict(slope=l_i, model=y), summed=y - last)

    def update_server(server: Server) -> tuple[Vector, Structure]:
        drift = server.state["drift"] + server.moved / population
        all_clients = server.state["all_clients"] + server.sums / population
        new_state = collections.OrderedDict(drift=drift, all_clients=all_clients)
        return server.weights + server.update + drift, new_state

    rules = stateful.Rules(
        client_state=lambda x: collections.OrderedDict(slope=x.zeros(), model=x),
        server_state=lambda x: collections.OrderedDict(drift=x.zeros(), all_clients=x),
        client=train,
        server=update_server,
        pull=params.alpha,
        other_models={"all_clients": lambda state: state["all_clients"]},
    )
    return stateful.build(model, params.local, rules, params.weighting, aggregator)


ALGORITHM = Algorithm(
    name="feddyn",
    title="each client's objective is corrected by its past",
    paper="fedumf_appendix",
    params=Params,
    build=build,
    cost=whole_model_cost,
    needs=("population",),
    refused=uploads.REFUSED,
    defaults=Defaults(demo={"alpha": 0.1}),
)
