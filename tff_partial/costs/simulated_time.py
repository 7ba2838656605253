"""Simulated time: how long devices of given speeds take for a round.

seconds = full_seconds * operations / full_operations / speed
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Optional, Union

import numpy as np


def simulated_seconds(
    operations: int, full_operations: int, speed: float, full_seconds: float = 10.0
) -> float:
    """Time for `operations` if speed 1 takes `full_seconds` for `full_operations`."""
    return full_seconds * operations / full_operations / speed


def speed(value: Union[str, float]) -> float:
    """A device's speed; 0.33 is a third, as in FedPMT, whose device of 0.33 takes 30 s for 10 s.

    Raises:
      ValueError: If it is not in (0, inf).
    """
    try:
        number = float(value)
    except (ValueError, OverflowError):
        number = math.nan
    if not 0 < number < math.inf:
        raise ValueError(f"speed must be a positive number. Received: speed={value!r}")
    times = round(1 / number)
    return 1 / times if times and round(1 / times, 2) == number else number


def parse_speeds(text: str) -> tuple[float, ...]:
    """Reads speeds such as '0.2,0.25,0.33,0.5,1'.

    Raises:
      ValueError: If one of them is not in (0, inf).
    """
    try:
        return tuple(speed(entry) for entry in text.split(","))
    except (ValueError, OverflowError):
        raise ValueError(
            "speeds must be positive numbers such as 0.2,0.25,0.33,0.5,1. "
            f"Received: speeds={text!r}"
        ) from None


def assign_speeds(speeds: Sequence[float], strengths: np.ndarray, seed: int = 0) -> np.ndarray:
    """The speed of every client, float [clients]: equal shares, weaker clients slower.

    Args:
      speeds: The speeds; sizes of their shares differ by at most one.
      strengths: Of every client, such as its capacity [clients].
      seed: Decides among clients of equal strength.
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
    """Duration of a round and which clients are in time.

    A round lasts until its slowest client is done, or until the deadline if one is later than that.
    """
    in_time = [deadline is None or seconds <= deadline for seconds in client_seconds]
    if deadline is not None and not all(in_time):
        return deadline, in_time
    return max(client_seconds, default=0.0), in_time
