"""FedDC: clients learn their drift, and train so that model and drift together are the server's.

Gao et al., FedDC: Federated learning with non-IID data via local drift decoupling and correction,
2022; as the appendix of FedUMF (papers/fedumf.txt) runs it.

    h_i <- 0;  c_i <- 0 for every client;  H <- 0;  c <- 0
    for each round:
        for each client i of the cohort S, in parallel:
            y <- K steps of SGD with momentum mu from x on
                     f_i(w) + alpha / 2 * |w + h_i - x|^2 + (1 - mu) * <c - c_i, w>
            h_i <- h_i + (y - x);  c_i <- (x - y) / (K' eta) - (1 - mu) * (c - c_i)
        H <- H + 1/N * sum of (y - x);  c <- c + 1/N * sum of the changes of c_i
        x <- mean of y + H

mu = 0 and K' = K in the paper; scaffold.py says why they are here with momentum.

A client's objective needs its drift h_i and its variate c_i only as
l_i = alpha h_i - (1 - mu) c_i.  The gradient of the added terms is
s(w) = l_i + (1 - mu) c + alpha (w - x).  Without momentum
l_i <- alpha (h_i + y - x) - ((x - y) / (K eta) - c + c_i) = s(y) - (x - y) / (K eta),  so l_i is
all that a client keeps of the two; with momentum it keeps c_i as well.

The mean of the last local models of all clients is evaluated as `all_clients`.

Differences from the paper: as in its public code, the drift that is added to the mean is that of
all clients, not only of the cohort, and the gradient correction has SCAFFOLD's form. That code
also divides alpha and c by a client's share of the examples (its number over the mean), counts the
changes of c_i that many times, and takes the first round's eta and an average client's K for c_i;
here all clients have the same, and eta and K are the client's own in the round. Clipping (10 there)
is `--clip_norm`, its weight decay (1e-3, of all parameters, after clipping) `--weight_decay` with
`--weight_decay_on=all`.
"""

from __future__ import annotations

import collections
import dataclasses
import math
from typing import Any

from tff_partial import costs
from tff_partial.core.model import ModelSpec
from tff_partial.core.vectors import Vector
from tff_partial.processes import stateful
from tff_partial.processes.stateful import Client, Server, Update


@dataclasses.dataclass(frozen=True)
class Params(stateful.StatefulParams):
    """Hyperparameters of FedDC.

    Attributes:
      alpha: Weight of the penalty on model and drift.
    """

    alpha: float = 1e-2

    def __post_init__(self) -> None:
        super().__post_init__()
        if not 0 <= self.alpha < math.inf:
            raise ValueError(f"alpha must be finite and not negative. Received: alpha={self.alpha}")


def client(of: Client, start: Vector) -> Update:
    """A client's round, from the server's model or from another start."""
    l_i, c, last, mu = of.state["slope"], of.sent, of.state["model"], of.momentum
    # alpha is the pull, so the slope moves along with w.
    y, slope = of.train(start, l_i + ((1 - mu) * c if mu else c))
    gradient = summed = (start - y) / (of.steps * of.rate(of.round_num))
    variate = Vector(())
    if mu:
        difference = c - of.state["variate"]
        variate = gradient - (1 - mu) * difference
        # The server takes c off again: the change of c_i, and without momentum just the gradient.
        summed = gradient + mu * difference
        gradient = (1 - mu) * (variate + difference)
    return Update(
        y,
        state=collections.OrderedDict(slope=slope - gradient, variate=variate, model=y),
        summed=collections.OrderedDict(gradient=summed, model=y - last),
    )


def create_rules(params: Params) -> stateful.Rules:
    """What clients and server keep and do."""
    population = params.check_population()

    def client_state(x: Vector) -> Any:
        variate = x.zeros() if params.local.momentum else Vector(())
        return collections.OrderedDict(slope=x.zeros(), variate=variate, model=x)

    def server(of: Server) -> Any:
        h, c, all_clients = (of.state[name] for name in ("drift", "variate", "all_clients"))
        drift = h + of.moved / population
        return of.weights + of.update + drift, collections.OrderedDict(
            drift=drift,
            variate=c + (of.sums["gradient"] - of.count * c) / population,
            all_clients=all_clients + of.sums["model"] / population,
        )

    return stateful.Rules(
        client_state=client_state,
        server_state=lambda x: collections.OrderedDict(
            drift=x.zeros(), variate=x.zeros(), all_clients=x
        ),
        sent=lambda state: state["variate"],
        client=lambda of: client(of, of.weights),
        server=server,
        pull=params.alpha,
        other_models={"all_clients": lambda state: state["all_clients"]},
    )


def build(model: ModelSpec, params: Params) -> stateful.StatefulProcess:
    """Returns the process."""
    return stateful.build(model, params.local, create_rules(params), params.weighting)


def cost(model: ModelSpec, params: Params, tier: str) -> costs.ClientCost:
    """What a round costs a client: variates go down and mean gradients go up as well."""
    return costs.whole(model, params.local.batch_size).with_vectors(down=1, up=1)
