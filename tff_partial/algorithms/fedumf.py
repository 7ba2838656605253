"""FedUMF: a client fuses the stale update that it could not upload (papers/fedumf.txt).

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
instead of N/M times. `literal` trains every client in every round. A client that uploads has
nothing to fuse in the next round, one that was drawn and too late has; with what it keeps, it keeps
the round it is of.

Differences from the paper: batch-norm statistics are not fused. In the paper's first round there
is nothing to fuse; it never says what eta_0 is, and nor is it needed. The paper has every client
receive each round's model (a broadcast); bytes and simulated time are those of the clients that
upload.
"""

from __future__ import annotations

import collections
import dataclasses
from collections.abc import Sequence
from typing import Any

from tff_partial import costs
from tff_partial.core.lazy import tf
from tff_partial.core.model import ModelSpec
from tff_partial.core.vectors import Vector, choose
from tff_partial.processes import stateful
from tff_partial.processes.stateful import Client, Update

NEVER = -2


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
        check_fusion("alpha", self.alpha)


def check_fusion(name: str, value: float) -> None:
    """Raises a ValueError if it is no fusion coefficient."""
    if not 0 < value <= 1:
        raise ValueError(f"{name} must be in (0, 1]. Received: {name}={value}")


def nothing_stored(x: Vector) -> Any:
    """What a client keeps that has nothing to fuse."""
    return collections.OrderedDict(update=x.zeros(), round=tf.constant(NEVER))


def fused(of: Client, stored: Any, alpha: float) -> Vector:
    """Where a client starts."""
    ratio = of.rate(of.round_num) / of.rate(of.round_num - 1)
    fuses = tf.logical_and(of.selected, tf.equal(stored["round"], of.round_num - 1))
    return choose(fuses, of.weights + (alpha * ratio) * stored["update"], of.weights)


def stored_after(of: Client, start: Vector, model: Vector) -> Any:
    """What a client keeps of a round; nothing if it has uploaded it."""
    kept = collections.OrderedDict(update=model - start, round=of.round_num)
    return choose(of.selected, nothing_stored(start), kept)


def unselected(literal: bool) -> Any:
    """Who trains beside the selected clients."""

    def clients(selected: Sequence[int], upcoming: Sequence[int], everyone: Sequence[int]) -> Any:
        candidates, chosen = everyone if literal else upcoming, set(selected)
        return [i for i in candidates if i not in chosen]

    return clients


def build(model: ModelSpec, params: Params) -> stateful.StatefulProcess:
    """Returns the process."""

    def client(of: Client) -> Update:
        start = fused(of, of.state, params.alpha)
        y, _ = of.train(start)
        return Update(y, state=stored_after(of, start, y))

    rules = stateful.Rules(
        client_state=nothing_stored, client=client, unselected=unselected(params.literal)
    )
    return stateful.build(model, params.local, rules, params.weighting)


def cost(model: ModelSpec, params: Params, tier: str) -> costs.ClientCost:
    """What a round costs a client that uploads; all are strong."""
    return costs.whole(model, params.local.batch_size)
