"""What a round costs its clients: tiers, bytes, simulated seconds, and who misses the deadline.

Simulated time (Wu et al., FedPMT, section V-B): a device of speed 1 trains the whole model in
`full_seconds`; a client takes its share of these operations over its speed. Without a deadline the
slowest client sets the pace of a round; with one, later clients' updates are dropped. With local
epochs, `full_seconds` is the time of a client with the average number of examples.
"""

from __future__ import annotations

import dataclasses
import functools
import math
from collections.abc import Sequence
from typing import Any, Callable, Optional

import numpy as np

from tff_partial import costs
from tff_partial.core.local_training import LocalTraining
from tff_partial.costs import simulated_time


@dataclasses.dataclass(frozen=True)
class Devices:
    """The clients' devices, in simulated time.

    Attributes:
      speeds: Relative speeds, each of an equal share of the clients; weaker tiers are slower.
      deadline: Seconds after which a round takes no more updates, or None.
      full_seconds: Time in which a device of speed 1 trains the whole model.
    """

    speeds: tuple[float, ...] = (1.0,)
    deadline: Optional[float] = None
    full_seconds: float = 10.0

    def __post_init__(self) -> None:
        for name in ("deadline", "full_seconds"):
            value = getattr(self, name)
            if value is not None and not 0 < value < math.inf:
                raise ValueError(f"{name} must be positive and finite. Received: {name}={value}")


class Accounts:
    """Keeps the accounts of a run's rounds."""

    def __init__(
        self,
        tier_names: Sequence[str],
        tier_of: Callable[[int, int], int],
        tier_shares: Sequence[float],
        tier_costs: Sequence[costs.ClientCost],
        whole: costs.ClientCost,
        local: LocalTraining,
        size_of: Callable[[int], int],
        clients: int,
        devices: Devices,
        seed: int,
    ) -> None:
        """
        Args:
          tier_names: Names of the tiers.
          tier_of: (Client, round) -> index of the client's tier.
          tier_shares: Share of each tier in those who can be drawn.
          tier_costs: What a round costs a client of each tier.
          whole: What it costs a client that trains the whole model.
          local: How a client trains.
          size_of: Client id -> its number of examples.
          clients: The population.
          devices: The clients' devices; where tiers stay, weaker ones are slower.
          seed: Decides which client has which speed.
        """
        self._names, self._tier_of, self._costs = tier_names, tier_of, tier_costs
        self._shares, self._clients = tier_shares, clients
        self._whole, self._local, self._size_of = whole, local, size_of
        self._devices = devices
        of_tier = np.array([cost.operations(1, 1, 1) for cost in tier_costs])
        strengths = of_tier[[tier_of(client, 0) for client in range(clients)]]
        self._speeds = simulated_time.assign_speeds(devices.speeds, strengths, seed)

    def seconds(self, client: int, round_num: int = 0) -> float:
        """The simulated time that a client needs for a round."""
        cost = self._costs[self._tier_of(client, round_num)]
        operations = self._operations(cost, self._size_of(client))
        full = self._full_operations
        return simulated_time.simulated_seconds(
            operations, full, self._speeds[client], self._devices.full_seconds
        )

    def check_deadline(
        self, participants: Optional[Sequence[int]] = None, tiers_are_drawn: bool = False
    ) -> None:
        """Raises a ValueError if no client would ever be in time.

        Args:
          participants: Ids of the clients that can be drawn; all by default.
          tiers_are_drawn: Whether a client has another tier every round.
        """
        deadline = self._devices.deadline
        if deadline is None:
            return
        everybody = range(self._clients) if participants is None else participants
        fastest = min(
            (self._least_seconds(int(i), tiers_are_drawn) for i in everybody), default=0.0
        )
        if fastest > deadline:
            raise ValueError(
                f"round_deadline must be at least {fastest:.4g}, the seconds of the fastest "
                f"client, or nobody ever trains. Received: round_deadline={deadline:g}"
            )

    def _least_seconds(self, client: int, tiers_are_drawn: bool) -> float:
        """The time of the client's cheapest tier; infinite without examples."""
        size = self._size_of(client)
        if not size:
            return math.inf
        tiers = range(len(self._costs)) if tiers_are_drawn else [self._tier_of(client, 0)]
        operations = min(self._operations(self._costs[tier], size) for tier in tiers)
        return simulated_time.simulated_seconds(
            operations, self._full_operations, self._speeds[client], self._devices.full_seconds
        )

    @functools.cached_property
    def _full_operations(self) -> int:
        """Those of the whole model, for a client with the average number of examples."""
        mean = sum(self._size_of(client) for client in range(self._clients)) / self._clients
        return self._operations(self._whole, max(round(mean), 1))

    def _operations(self, cost: costs.ClientCost, size: int) -> int:
        batch, epochs = self._local.batch_size, self._local.epochs
        if not size:
            return 0
        if epochs:
            return cost.operations(epochs * -(-size // batch), batch, size, seen=epochs * size)
        return cost.operations(self._local.steps or 0, batch, size)

    def of_round(self, ids: Sequence[int], round_num: int = 0) -> tuple[list[int], dict[str, Any]]:
        """Who is in time, and the round's columns of metrics.csv."""
        seconds, in_time = simulated_time.round_seconds(
            [self.seconds(i, round_num) for i in ids], self._devices.deadline
        )
        kept = [i for i, is_in_time in zip(ids, in_time) if is_in_time]
        tier = {i: self._tier_of(i, round_num) for i in ids}
        counts = np.bincount(np.array([tier[i] for i in kept], int), minlength=len(self._names))
        columns: dict[str, Any] = {
            "bytes_down": sum(self._costs[tier[i]].bytes_down for i in ids),
            "bytes_up": sum(self._costs[tier[i]].bytes_up for i in kept),
            "simulated_seconds": round(seconds, 4),
        }
        columns |= {f"clients_{name}": int(n) for name, n in zip(self._names, counts)}
        if self._devices.deadline is not None:
            columns["clients_late"] = len(ids) - len(kept)
        return kept, columns

    def average_capacity(self) -> float:
        """C = sum of C_i R_i over the tiers, EmbracingFL's column.

        C_i is rounded to two decimals, as in the paper's tables.
        """
        capacities = [round(cost.capacity, 2) for cost in self._costs]
        return costs.average_capacity(self._shares, capacities)
