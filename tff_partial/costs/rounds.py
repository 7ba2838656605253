"""What a round costs its clients: tiers, bytes, simulated seconds, and who misses the deadline.

    seconds = full_seconds * operations / full_operations / speed

Simulated time is that of Wu et al., FedPMT, section V-B: a device of speed 1 trains the whole model
in `full_seconds`. Without a deadline the slowest client sets the pace of a round; with one, later
clients' updates are dropped. With local epochs, `full_operations` are those of a client with the
average number of examples.
"""

from __future__ import annotations

import dataclasses
import functools
import math
from collections.abc import Sequence
from typing import Callable, Optional, Union

import numpy as np

from tff_partial import costs
from tff_partial.core.local_training import LocalTraining
from tff_partial.costs import overview


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

    def seconds(self, operations: int, full_operations: int, speed: float) -> float:
        """Return the time for the operations if the whole model takes `full_operations`."""
        return self.full_seconds * operations / full_operations / speed


def parse_speeds(text: str) -> tuple[float, ...]:
    """Read speeds such as '0.2,0.25,1'; raise a ValueError if one of them is not in (0, inf)."""
    try:
        return tuple(speed(entry) for entry in text.split(","))
    except (ValueError, OverflowError):
        raise ValueError(
            "speeds must be positive numbers such as 0.2,0.25,0.33,0.5,1. "
            f"Received: speeds={text!r}"
        ) from None


def speed(value: Union[str, float]) -> float:
    """Return a device's speed; 0.33 is a third, as FedPMT's device of 0.33 takes 30 s for 10 s.

    Raises:
      ValueError: If it is not in (0, inf).
    """
    number = float(value)
    if not 0 < number < math.inf:
        raise ValueError(f"speed must be a positive number. Received: speed={value!r}")
    times = round(1 / number)
    return 1 / times if times and round(1 / times, 2) == number else number


def assign_speeds(speeds: Sequence[float], strengths: np.ndarray, seed: int = 0) -> np.ndarray:
    """Return the speed of every client, float [clients]: equal shares, weaker clients slower.

    Sizes of the shares differ by at most one; the seed decides among clients of equal strength.
    """
    shuffled = np.random.default_rng([seed, 0x5BEED]).permutation(len(strengths))
    weakest_first = shuffled[np.argsort(np.asarray(strengths)[shuffled], kind="stable")]
    result = np.empty(len(strengths))
    shares = np.arange(len(strengths)) * len(speeds) // max(len(strengths), 1)
    result[weakest_first] = np.sort(np.asarray(speeds, float))[shares]
    return result


def round_seconds(
    client_seconds: Sequence[float], deadline: Optional[float]
) -> tuple[float, list[bool]]:
    """Return the duration of a round and which clients are in time.

    A round lasts until its slowest client is done, or until the deadline if one is later than that.
    """
    in_time = [deadline is None or seconds <= deadline for seconds in client_seconds]
    if deadline is not None and not all(in_time):
        return deadline, in_time
    return max(client_seconds, default=0.0), in_time


@dataclasses.dataclass(frozen=True)
class Accounts:
    """What the rounds of a run cost.

    Attributes:
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
      mean_size: Returns the mean of the clients' numbers of examples; computed by default.
    """

    tier_names: Sequence[str]
    tier_of: Callable[[int, int], int]
    tier_shares: Sequence[float]
    tier_costs: Sequence[costs.ClientCost]
    whole: costs.ClientCost
    local: LocalTraining
    size_of: Callable[[int], int]
    clients: int
    devices: Devices
    seed: int
    mean_size: Optional[Callable[[], float]] = None

    @functools.cached_property
    def _speeds(self) -> np.ndarray:
        tiers = [self.tier_of(client, 0) for client in range(self.clients)]
        strengths = np.array([cost.operations(1, 1, 1) for cost in self.tier_costs])[tiers]
        return assign_speeds(self.devices.speeds, strengths, self.seed)

    @functools.cached_property
    def _full_operations(self) -> int:
        """Those of the whole model, for a client with the average number of examples."""
        if self.mean_size is not None:
            mean = self.mean_size()
        else:
            mean = sum(self.size_of(client) for client in range(self.clients)) / self.clients
        return self._operations(self.whole, max(round(mean), 1))

    def _operations(self, cost: costs.ClientCost, size: int) -> int:
        batch, epochs = self.local.batch_size, self.local.epochs
        if not size:
            return 0
        if epochs:
            return cost.operations(epochs * -(-size // batch), batch, size, seen=epochs * size)
        return cost.operations(self.local.steps or 0, batch, size)

    def _seconds(self, client: int, tier: int) -> float:
        operations = self._operations(self.tier_costs[tier], self.size_of(client))
        return self.devices.seconds(operations, self._full_operations, self._speeds[client])

    def seconds(self, client: int, round_num: int = 0) -> float:
        """Return the simulated time that a client needs for a round."""
        return self._seconds(client, self.tier_of(client, round_num))

    def check_deadline(
        self, participants: Optional[Sequence[int]] = None, tiers_are_drawn: bool = False
    ) -> None:
        """Raise a ValueError if none of the participants (None: all) would ever be in time.

        Where tiers are drawn, a client has another one every round.
        """
        deadline = self.devices.deadline
        if deadline is None:
            return

        def least_seconds(client: int) -> float:
            tiers = range(len(self.tier_costs)) if tiers_are_drawn else [self.tier_of(client, 0)]
            has_examples = self.size_of(client) > 0
            return min(self._seconds(client, t) for t in tiers) if has_examples else math.inf

        everybody = range(self.clients) if participants is None else participants
        fastest = min(map(least_seconds, everybody), default=0.0)
        if fastest > deadline:
            raise ValueError(
                f"round_deadline must be at least {fastest:.4g}, the seconds of the fastest "
                f"client, or nobody ever trains. Received: round_deadline={deadline:g}"
            )

    def of_round(
        self, ids: Sequence[int], round_num: int = 0
    ) -> tuple[list[int], dict[str, Union[int, float]]]:
        """Return who is in time, and the round's columns of metrics.csv."""
        seconds, in_time = round_seconds(
            [self.seconds(i, round_num) for i in ids], self.devices.deadline
        )
        kept = [i for i, is_in_time in zip(ids, in_time) if is_in_time]
        tier = {i: self.tier_of(i, round_num) for i in ids}
        counts = np.bincount(np.array([tier[i] for i in kept], int), minlength=len(self.tier_names))
        columns: dict[str, Union[int, float]] = {
            "bytes_down": sum(self.tier_costs[tier[i]].bytes_down for i in ids),
            "bytes_up": sum(self.tier_costs[tier[i]].bytes_up for i in kept),
            "simulated_seconds": round(seconds, 4),
        }
        columns |= {f"clients_{name}": int(n) for name, n in zip(self.tier_names, counts)}
        if self.devices.deadline is not None:
            columns["clients_late"] = len(ids) - len(kept)
        return kept, columns

    def figures(self) -> dict[str, overview.Figures]:
        """Return what a round costs a client of each tier, by name."""
        batch = self.local.batch_size
        found = [overview.figures(cost, self.whole, batch) for cost in self.tier_costs]
        return dict(zip(self.tier_names, found))

    def average_capacity(self) -> float:
        """Return C = sum of C_i R_i over the tiers, EmbracingFL's column.

        C_i is rounded to two decimals, as in the paper's tables.
        """
        capacities = [round(cost.capacity, 2) for cost in self.tier_costs]
        return costs.average_capacity(self.tier_shares, capacities)
