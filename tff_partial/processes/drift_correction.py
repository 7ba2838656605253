"""FedDC's rules: clients learn their drift, and train so that model and drift are the server's.

`algorithms.feddc` has the pseudo-code. A client's objective needs its drift h_i and its variate c_i
only as l_i = alpha h_i - (1 - mu) c_i.  The gradient of the added terms is
s(w) = l_i + (1 - mu) c + alpha (w - x).  Without momentum
l_i <- alpha (h_i + y - x) - ((x - y) / (K eta) - c + c_i) = s(y) - (x - y) / (K eta),  so l_i is
all that a client keeps of the two; with momentum it keeps c_i as well.
"""

from __future__ import annotations

import collections
import dataclasses
from typing import ClassVar

from tff_partial import costs
from tff_partial.core.model import ModelSpec
from tff_partial.core.types import Structure
from tff_partial.core.vectors import Vector
from tff_partial.processes import stateful
from tff_partial.processes.stateful_rules import (
    DRIFT_NEEDS_SUM,
    VARIATES_NEED_SGD,
    Client,
    Server,
    Update,
)
from tff_partial.tiers import Tier


@dataclasses.dataclass(frozen=True)
class DriftParams(stateful.StatefulParams):
    """Hyperparameters of the rules.

    Attributes:
      alpha: Weight of the penalty on model and drift; 0.1 in demos.
    """

    alpha: float = 1e-2
    NEEDS_SGD: ClassVar[str] = VARIATES_NEED_SGD
    NEEDS_SUM: ClassVar[str] = DRIFT_NEEDS_SUM

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.alpha < 0:
            raise ValueError(f"alpha must not be negative. Received: alpha={self.alpha}")


def train(client: Client, start: Vector) -> Update:
    """Return a client's round, from the server's model or from another start."""
    l_i, c, mu = client.state["slope"], client.sent, client.momentum
    last = client.state["model"]
    # alpha is the pull, so the slope moves along with w.
    y, slope = client.train(start, l_i + ((1 - mu) * c if mu else c))
    gradient = summed = (start - y) / (client.steps * client.learning_rate(client.round_num))
    variate = Vector(())
    if mu:
        difference = c - client.state["variate"]
        variate = gradient - (1 - mu) * difference
        # The server subtracts c again: the change of c_i, and without momentum just the gradient.
        summed = gradient + mu * difference
        gradient = (1 - mu) * (variate + difference)
    return Update(
        y,
        state=collections.OrderedDict(slope=slope - gradient, variate=variate, model=y),
        summed=collections.OrderedDict(gradient=summed, model=y - last),
    )


def create_rules(params: DriftParams) -> stateful.Rules:
    """Return what clients and server keep and do."""
    population = params.check_population()

    def client_state(x: Vector) -> Structure:
        variate = x.zeros() if params.local.momentum else Vector(())
        return collections.OrderedDict(slope=x.zeros(), variate=variate, model=x)

    def update_server(server: Server) -> tuple[Vector, Structure]:
        h, c, all_clients = (server.state[name] for name in ("drift", "variate", "all_clients"))
        drift = h + server.moved / population
        return server.weights + server.update + drift, collections.OrderedDict(
            drift=drift,
            variate=c + (server.sums["gradient"] - server.count * c) / population,
            all_clients=all_clients + server.sums["model"] / population,
        )

    return stateful.Rules(
        client_state=client_state,
        server_state=lambda x: collections.OrderedDict(
            drift=x.zeros(), variate=x.zeros(), all_clients=x
        ),
        sent=lambda state: state["variate"],
        client=lambda client: train(client, client.weights),
        server=update_server,
        pull=params.alpha,
        other_models={"all_clients": lambda state: state["all_clients"]},
    )


def cost(model: ModelSpec, params: DriftParams, tier: Tier) -> costs.ClientCost:
    """Return a client's cost of a round: variates go down and mean gradients up as well."""
    return costs.whole(model, params.local.batch_size).with_vectors(down=1, up=1)
