"""SCAFFOLD: control variates take out the drift of the clients.

Karimireddy et al., SCAFFOLD: Stochastic controlled averaging for federated learning, 2020, option
II; as the appendix of Li et al., Model fusion from unauthorized clients in federated learning,
2022, runs it.

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
from typing import ClassVar

from tff_partial import costs
from tff_partial.algorithms.declaration import Algorithm
from tff_partial.core.aggregators import AggregatorLike
from tff_partial.core.model import ModelSpec
from tff_partial.core.vectors import Vector
from tff_partial.processes import stateful, uploads
from tff_partial.processes.stateful_rules import VARIATES_NEED_SGD, Client, Server, Update
from tff_partial.tiers import Tier


@dataclasses.dataclass(frozen=True)
class Params(stateful.StatefulParams):
    """Hyperparameters of SCAFFOLD."""

    NEEDS_SGD: ClassVar[str] = VARIATES_NEED_SGD


def _train(client: Client) -> Update:
    """Return a client's round."""
    x, c, c_i, mu = client.weights, client.sent, client.state, client.momentum
    difference = c - c_i
    y, slope = client.train(x, (1 - mu) * difference if mu else difference)
    gradient = (x - y) / (client.steps * client.learning_rate(client.round_num))
    # The server subtracts c again: the change of c_i, and without momentum just the gradient.
    summed = gradient + mu * difference if mu else gradient
    return Update(y, state=gradient - slope, summed=summed)


def build(
    model: ModelSpec, params: Params, aggregator: AggregatorLike = None
) -> stateful.StatefulProcess:
    """Return the process."""
    population = params.check_population()

    def update_server(server: Server) -> tuple[Vector, Vector]:
        c = server.state
        new_c = c + (server.sums - server.count * c) / population
        return server.weights + server.update, new_c

    rules = stateful.Rules(
        client_state=Vector.zeros,
        server_state=Vector.zeros,
        sent=lambda c: c,
        client=_train,
        server=update_server,
    )
    return stateful.build(
        model, params.local, rules, params.weighting, aggregator, server=params.server
    )


def cost(model: ModelSpec, params: Params, tier: Tier) -> costs.ClientCost:
    """Return a client's cost of a round: variates go down and mean gradients up as well."""
    return costs.whole(model, params.local.batch_size).with_vectors(down=1, up=1)


ALGORITHM = Algorithm(
    name="scaffold",
    title="control variates take out the clients' drift",
    paper="fedumf_appendix",
    params=Params,
    build=build,
    cost=cost,
    needs=("population",),
    refused=uploads.REFUSED,
)
