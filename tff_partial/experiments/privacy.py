"""Differential privacy of a run: its noise, how its clients are drawn, and the epsilon they give.

    epsilon after t rounds = dp_accounting's, of t Gaussian mechanisms on samples of the clients

`poisson` sampling (each client takes part with probability q = cohort / clients) protects against
adding or removing a client. `fixed` (so many clients, without replacement) protects against
replacing one by another: the sum may then change by twice the clip, so that the noise counts half.
"""

from __future__ import annotations

import dataclasses
import functools
import math
from collections.abc import Mapping
from typing import Any, Optional

from tff_partial.experiments.bundled import tasks

FLAGS = ("dp_noise_multiplier", "dp_clip", "dp_delta", "target_epsilon")
_DIGITS = 4  # of a noise multiplier that was searched for, rounded up


@dataclasses.dataclass(frozen=True)
class Accounting:
    """What epsilon depends on.

    Attributes:
      noise_multiplier: Standard deviation of the noise over the clip.
      clients: Number of clients that can be drawn.
      cohort: How many are drawn for a round, or are expected to be.
      sampling: `poisson` or `fixed`.
      delta: The delta of (epsilon, delta).
    """

    noise_multiplier: float
    clients: int
    cohort: int
    sampling: str
    delta: float

    def epsilon(self, rounds: int) -> float:
        """Return epsilon after so many rounds; infinity without noise."""
        from dp_accounting import rdp

        if not self.noise_multiplier:
            return math.inf
        orders, of_round = _of_round(self.noise_multiplier, *self._draw)
        return float(rdp.compute_epsilon(orders, rounds * of_round, self.delta)[0])

    @property
    def _draw(self) -> tuple[int, int, str]:
        return self.clients, self.cohort, self.sampling


@functools.lru_cache(maxsize=64)
def _of_round(noise_multiplier: float, clients: int, cohort: int, sampling: str) -> Any:
    """Return the orders of Renyi differential privacy, and what a round costs at each."""
    import dp_accounting
    from dp_accounting import rdp

    relation = dp_accounting.NeighboringRelation
    if sampling == "poisson":
        gaussian = dp_accounting.GaussianDpEvent(noise_multiplier)
        event = dp_accounting.PoissonSampledDpEvent(cohort / clients, gaussian)
        accountant = rdp.RdpAccountant(neighboring_relation=relation.ADD_OR_REMOVE_ONE)
    else:
        # Replacing a client changes the sum by up to twice the clip.
        gaussian = dp_accounting.GaussianDpEvent(noise_multiplier / 2)
        event = dp_accounting.SampledWithoutReplacementDpEvent(clients, cohort, gaussian)
        accountant = rdp.RdpAccountant(neighboring_relation=relation.REPLACE_ONE)
    accountant.compose(event)
    return accountant.orders, accountant.rdp


@functools.lru_cache(maxsize=64)
def noise_for(
    target_epsilon: float, rounds: int, clients: int, cohort: int, sampling: str, delta: float
) -> float:
    """Return the smallest noise multiplier, of four decimals, whose epsilon is at most the target.

    Raises:
      ValueError: If a million would be too little.
    """
    step = 10.0**-_DIGITS

    def is_enough(steps: int) -> bool:
        found = Accounting(steps * step, clients, cohort, sampling, delta)
        return found.epsilon(rounds) <= target_epsilon

    high = 2**13  # of these steps: a noise multiplier of about 0.8
    while not is_enough(high):
        high *= 2
        if high * step > 1e6:
            raise ValueError(
                "target_epsilon must be one that a noise multiplier below a million gives. "
                f"Received: target_epsilon={target_epsilon:g}"
            )
    low = 0
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (low, middle) if is_enough(middle) else (middle, high)
    return round(high * step, _DIGITS)


def resolve(settings: tasks.Settings, given: Mapping[str, object]) -> tasks.Settings:
    """Return settings with the noise, delta and sampling that they imply.

    Raises:
      ValueError: If they do not fit each other.
    """
    if settings.aggregation != "dp":
        return settings
    if settings.sampler:
        raise ValueError(
            "sampler must not be given with aggregation='dp', whose accounting knows how clients "
            f"are drawn. Received: sampler={settings.sampler!r}"
        )
    if settings.evaluate != "server":
        raise ValueError(
            "evaluate must be server with aggregation='dp': other tests look at clients' data. "
            f"Received: evaluate={settings.evaluate!r}"
        )
    noise, target = settings.dp_noise_multiplier, settings.target_epsilon
    if (noise is None) == (target is None):
        raise ValueError(
            "exactly one of dp_noise_multiplier and target_epsilon must be given with "
            f"aggregation='dp'. Received: dp_noise_multiplier={noise}, target_epsilon={target}"
        )
    clients, cohort = settings.participants, settings.clients_per_round
    delta = clients**-1.1 if settings.dp_delta is None else settings.dp_delta
    sampling = settings.sampling if given.get("sampling") else "poisson"
    if noise is None and target is not None:
        noise = noise_for(target, settings.rounds, clients, cohort, sampling, delta)
    return dataclasses.replace(
        settings, dp_noise_multiplier=noise, dp_delta=delta, sampling=sampling, target_epsilon=None
    )


def accounting(settings: tasks.Settings) -> Optional[Accounting]:
    """Return what epsilon depends on; None without differential privacy."""
    noise, delta = settings.dp_noise_multiplier, settings.dp_delta
    if settings.aggregation != "dp" or noise is None or delta is None:
        return None
    drawn = settings.participants, settings.clients_per_round
    return Accounting(noise, *drawn, settings.sampling, delta)
