"""SCAFFOLD: control variates take out the drift of the clients.

Karimireddy et al., SCAFFOLD: Stochastic controlled averaging for federated learning, 2020, option
II; as the appendix of FedUMF (papers/fedumf.txt) runs it.

    c <- 0;  c_i <- 0 for every client
    for each round:
        for each client i of the cohort S, in parallel:
            y <- K steps of SGD from x with the gradient  g - c_i + c
            c_i' <- c_i - c + (x - y) / (K eta)
        x <- mean of y;  c <- c + 1/N * sum of (c_i' - c_i);  c_i <- c_i'

Differences from the paper: the server's rate is 1. With local momentum, (x - y) / (K eta) is no
longer the mean gradient.
"""

from __future__ import annotations

import dataclasses
from typing import Any

from tff_partial import costs, stateful_process
from tff_partial.model_spec import ModelSpec
from tff_partial.stateful_process import Client, Update
from tff_partial.vectors import Vector


@dataclasses.dataclass(frozen=True)
class Params(stateful_process.StatefulParams):
    """Hyperparameters of SCAFFOLD."""


def client(of: Client) -> Update:
    """A client's round."""
    x, c, c_i = of.weights, of.sent, of.state
    difference = c - c_i
    y = of.train(x, lambda g, w: g + difference)
    new_c_i = c_i - c + (x - y) / (of.steps * of.rate(of.round_num))
    return Update(y, state=new_c_i, summed=new_c_i - c_i)


def build(model: ModelSpec, params: Params) -> stateful_process.StatefulProcess:
    """Returns the process."""
    population = params.check_population()

    def server(x: Vector, c: Vector, mean: Vector, sum_of_changes: Vector) -> Any:
        return mean, c + sum_of_changes / population

    rules = stateful_process.Rules(
        client_state=Vector.zeros,
        server_state=Vector.zeros,
        sent=lambda c: c,
        client=client,
        server=server,
    )
    return stateful_process.build(model, params.local, rules, params.weighting)


def cost(model: ModelSpec, params: Params, tier: str) -> costs.ClientCost:
    """What a round costs a client: the variates go down and their change goes up as well."""
    return costs.whole(model, params.local.batch_size).with_vectors(down=1, up=1)
