"""FedUMF: a client fuses the stale update that it could not upload.

Li et al., Model fusion from unauthorized clients in federated learning, 2022.

    theta_1;  g^i <- 0 for every client;  S_0 <- {}                               (algorithm 1)
    for each round t:
        the server draws S_t
        for each client i:
            theta^i <- theta_t
            if i in S_t and not in S_{t-1}:
                theta^i <- theta^i + alpha * eta_t / eta_{t-1} * g^i
            y <- K steps of SGD from theta^i
            g^i <- y - theta^i
        theta_{t+1} <- mean of y over S_t

A stored g is used one round later or never, and a simulation knows S_{t+1} when it runs round t.
So only S_t and the others of S_{t+1} train: exactly the same models for twice the cost of FedAvg
instead of N/M times. `literal` trains every client in every round. What a client stores of a round:
processes.stale_updates.

Differences from the paper: batch-norm statistics are not fused. In the paper's first round there
is nothing to fuse; it never says what eta_0 is, and it is not needed. The paper has every client
receive each round's model (a broadcast); bytes and simulated time are those of the clients that
upload.
"""

from __future__ import annotations

import dataclasses

from tff_partial.algorithms.declaration import Algorithm, whole_model_cost
from tff_partial.core.aggregators import AggregatorLike
from tff_partial.core.model import ModelSpec
from tff_partial.processes import stale_updates, stateful, uploads
from tff_partial.processes.stateful_rules import Client, Update


@dataclasses.dataclass(frozen=True)
class Params(stateful.StatefulParams):
    """Hyperparameters of FedUMF.

    Attributes:
      alpha: The fusion coefficient, in (0, 1].
      literal: Whether all clients train in every round, as algorithm 1 is written.
    """

    alpha: float = 1.0
    literal: bool = False

    def __post_init__(self) -> None:
        super().__post_init__()
        stale_updates.check_coefficient("alpha", self.alpha)


def build(
    model: ModelSpec, params: Params, aggregator: AggregatorLike = None
) -> stateful.StatefulProcess:
    """Return the process."""

    def train(client: Client) -> Update:
        start = stale_updates.fused_start(client, client.state, params.alpha)
        y, _ = client.train(start)
        return Update(y, state=stale_updates.stored_after(client, start, y))

    rules = stateful.Rules(
        client_state=stale_updates.nothing,
        client=train,
        unselected=stale_updates.also_training(params.literal),
    )
    return stateful.build(
        model, params.local, rules, params.weighting, aggregator, server=params.server
    )


ALGORITHM = Algorithm(
    name="fedumf",
    title="clients fuse the stale update that they could not upload",
    paper="fedumf",
    params=Params,
    build=build,
    cost=whole_model_cost,
    needs=("population",),
    next_cohort_trains=True,
    refused=uploads.REFUSED,
)
