"""SCAFFOLD: control variates take out the drift of the clients.

Karimireddy et al., SCAFFOLD: Stochastic controlled averaging for federated learning, 2020, option
II; as the appendix of FedUMF (papers/fedumf.txt) runs it.

    c <- 0;  c_i <- 0 for every client
    for each round:
        for each client i of the cohort S, in parallel:
            s <- (1 - mu) * (c - c_i)
            y <- K steps of SGD with momentum mu from x with the gradient  g + s
            c_i <- (x - y) / (K' eta) - s
        x <- mean of y;  c <- c + 1/N * sum of the changes of c_i

The paper has mu = 0 and K' = K. With momentum, x - y holds gradient k, and s with it,
(1 - mu^(K - k)) / (1 - mu) times; K' is the sum of these factors (`LocalTraining.effective_steps`),
so that c_i is a mean of gradients. Without it the variates grow from round to round until training
diverges. The factor of s lets a correction move a client about as far as without momentum: the
gradient turns as the client moves, the correction does not.

Differences from the paper: the server's rate is 1, momentum is possible. FedDyn's and FedDC's
public code of it scales by p_i, a client's number of examples over the mean: clients train with
c / p_i, and their changes of c_i count p_i-fold in c. It divides x - y by the first round's eta and
by an average client's K. Here all clients count alike, and eta and K are the client's own in the
round.
"""

from __future__ import annotations

import dataclasses
from typing import Any

from tff_partial import costs
from tff_partial.core.model import ModelSpec
from tff_partial.core.vectors import Vector
from tff_partial.processes import stateful
from tff_partial.processes.stateful import Client, Server, Update


@dataclasses.dataclass(frozen=True)
class Params(stateful.StatefulParams):
    """Hyperparameters of SCAFFOLD."""


def client(of: Client) -> Update:
    """A client's round."""
    x, c, c_i, mu = of.weights, of.sent, of.state, of.momentum
    difference = c - c_i
    y, slope = of.train(x, (1 - mu) * difference if mu else difference)
    gradient = (x - y) / (of.steps * of.rate(of.round_num))
    # The server takes c off again: the change of c_i, and without momentum just the gradient.
    summed = gradient + mu * difference if mu else gradient
    return Update(y, state=gradient - slope, summed=summed)


def build(model: ModelSpec, params: Params) -> stateful.StatefulProcess:
    """Returns the process."""
    population = params.check_population()

    def server(of: Server) -> Any:
        c = of.state
        return of.weights + of.update, c + (of.sums - of.count * c) / population

    rules = stateful.Rules(
        client_state=Vector.zeros,
        server_state=Vector.zeros,
        sent=lambda c: c,
        client=client,
        server=server,
    )
    return stateful.build(model, params.local, rules, params.weighting)


def cost(model: ModelSpec, params: Params, tier: str) -> costs.ClientCost:
    """What a round costs a client: the variates go down and mean gradients go up as well."""
    return costs.whole(model, params.local.batch_size).with_vectors(down=1, up=1)
