"""SCAFFOLD: control variates take out the drift of the clients.

Karimireddy et al., SCAFFOLD: Stochastic controlled averaging for federated learning, 2020, option
II; as the appendix of FedUMF (papers/fedumf.txt) runs it.

    c <- 0;  c_i <- 0 for every client
    for each round:
        for each client i of the cohort S, in parallel:
            y <- K steps of SGD from x with the gradient  g - c_i + c
            G_i <- (x - y) / (K eta)
            c_i <- c_i - c + G_i
        x <- mean of y;  c <- c + 1/N * sum of (G_i - c)                 (G_i - c: c_i's change)

Differences from the paper: the server's rate is 1. With local momentum, G_i is no longer the mean
gradient. Clients send G_i, which gives the same sums as the changes of c_i.
FedDyn's and FedDC's public code of it scales by p_i, a client's number of examples over the mean:
clients train with c / p_i, and their changes of c_i count p_i-fold in c. Its G_i divides by the
first round's eta and by an average client's K. Here all clients count alike, and eta and K are the
client's own in the round.
"""

from __future__ import annotations

import dataclasses
from typing import Any

from tff_partial import costs, stateful_process
from tff_partial.model_spec import ModelSpec
from tff_partial.stateful_process import Client, Server, Update
from tff_partial.vectors import Vector


@dataclasses.dataclass(frozen=True)
class Params(stateful_process.StatefulParams):
    """Hyperparameters of SCAFFOLD."""


def client(of: Client) -> Update:
    """A client's round."""
    x, c, c_i = of.weights, of.sent, of.state
    y, difference = of.train(x, c - c_i)
    gradient = (x - y) / (of.steps * of.rate(of.round_num))
    return Update(y, state=gradient - difference, summed=gradient)


def build(model: ModelSpec, params: Params) -> stateful_process.StatefulProcess:
    """Returns the process."""
    population = params.check_population()

    def server(of: Server) -> Any:
        c, gradients = of.state, of.sums
        return of.weights + of.update, c + (gradients - of.count * c) / population

    rules = stateful_process.Rules(
        client_state=Vector.zeros,
        server_state=Vector.zeros,
        sent=lambda c: c,
        client=client,
        server=server,
    )
    return stateful_process.build(model, params.local, rules, params.weighting)


def cost(model: ModelSpec, params: Params, tier: str) -> costs.ClientCost:
    """What a round costs a client: the variates go down and mean gradients go up as well."""
    return costs.whole(model, params.local.batch_size).with_vectors(down=1, up=1)
