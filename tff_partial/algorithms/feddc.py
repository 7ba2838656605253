"""FedDC: clients learn their drift, and train so that model and drift together are the server's.

Gao et al., FedDC: Federated learning with non-IID data via local drift decoupling and correction,
2022; as the appendix of FedUMF (papers/fedumf.txt) runs it.

    h_i <- 0;  c_i <- 0 for every client;  H <- 0;  c <- 0
    for each round:
        for each client i of the cohort S, in parallel:
            y <- K steps of SGD from x on  f_i(w) + alpha / 2 * |w + h_i - x|^2 + <c - c_i, w>
            h_i <- h_i + (y - x)
            c_i' <- c_i - c + (x - y) / (K eta)
        H <- H + 1/N * sum of (y - x);  c <- c + 1/N * sum of (c_i' - c_i);  c_i <- c_i'
        x <- mean of y + H

The mean of the last local models of all clients is evaluated as `all_clients`.

Differences from the paper: as in its public code, the drift that is added to the mean is that of
all clients, not only of the cohort, and the gradient correction has SCAFFOLD's form. That code
also divides alpha and c by a client's share of the examples and takes the first round's eta for
c_i; here all clients have the same and eta is the round's. Clipping (10 there) is `--clip_norm`.
"""

from __future__ import annotations

import collections
import dataclasses
import math
from typing import Any, Optional

from tff_partial import costs, stateful_process
from tff_partial.model_spec import ModelSpec
from tff_partial.stateful_process import Client, Update
from tff_partial.vectors import Vector, total


@dataclasses.dataclass(frozen=True)
class Params(stateful_process.StatefulParams):
    """Hyperparameters of FedDC.

    Attributes:
      alpha: Weight of the penalty on model and drift.
    """

    alpha: float = 1e-2

    def __post_init__(self) -> None:
        super().__post_init__()
        if not 0 <= self.alpha < math.inf:
            raise ValueError(f"alpha must be finite and not negative. Received: alpha={self.alpha}")


def client(of: Client, alpha: float, start: Optional[Vector] = None) -> Update:
    """A client's round, from the server's model or from another start."""
    x, c, start = of.weights, of.sent, start or of.weights
    h_i, c_i, last = of.state["drift"], of.state["variate"], of.state["model"]
    constant = alpha * (h_i - x) + c - c_i
    y = of.train(start, lambda g, w: total(g, alpha * w, constant))
    change = (start - y) / (of.steps * of.rate(of.round_num)) - c
    moved = y - x
    return Update(
        y,
        state=collections.OrderedDict(drift=h_i + moved, variate=c_i + change, model=y),
        summed=collections.OrderedDict(drift=moved, variate=change, model=y - last),
    )


def create_rules(population: int, alpha: float) -> stateful_process.Rules:
    """What clients and server keep and do."""

    def server(x: Vector, state: Any, mean: Vector, sums: Any) -> Any:
        drift = state["drift"] + sums["drift"] / population
        variate = state["variate"] + sums["variate"] / population
        all_clients = state["all_clients"] + sums["model"] / population
        return mean + drift, collections.OrderedDict(
            drift=drift, variate=variate, all_clients=all_clients
        )

    return stateful_process.Rules(
        client_state=lambda x: collections.OrderedDict(drift=x.zeros(), variate=x.zeros(), model=x),
        server_state=lambda x: collections.OrderedDict(
            drift=x.zeros(), variate=x.zeros(), all_clients=x
        ),
        sent=lambda state: state["variate"],
        client=lambda of: client(of, alpha),
        server=server,
        other_models={"all_clients": lambda state: state["all_clients"]},
    )


def build(model: ModelSpec, params: Params) -> stateful_process.StatefulProcess:
    """Returns the process."""
    rules = create_rules(params.check_population(), params.alpha)
    return stateful_process.build(model, params.local, rules, params.weighting)


def cost(model: ModelSpec, params: Params, tier: str) -> costs.ClientCost:
    """What a round costs a client: variates go down and their change goes up as well."""
    return costs.whole(model, params.local.batch_size).with_vectors(down=1, up=1)
