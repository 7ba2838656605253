"""Figures of finished and unfinished runs: what a target accuracy took, and spread over seeds.

Rows are those of metrics.csv as `results.read_metrics` returns them. A target counts as reached in
the first round whose evaluation reaches it; what it cost is summed over the rounds up to that one.
"""

from __future__ import annotations

import itertools
import statistics
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, NamedTuple, Optional

Row = Mapping[str, Any]


class Cost(NamedTuple):
    """What was spent up to a round; None where metrics.csv does not say."""

    rounds: int
    simulated_seconds: Optional[float]
    bytes: Optional[float]


class Spread(NamedTuple):
    """A mean over seeds with the sample standard deviation (None for a single seed)."""

    mean: float
    deviation: Optional[float]
    seeds: int


def accuracies(rows: Sequence[Row]) -> list[float]:
    """The test accuracies, in the order of the rounds that were evaluated."""
    return [r["test_accuracy"] for r in rows if r.get("test_accuracy") is not None]


def rounds_to(rows: Sequence[Row], target: Optional[float]) -> Optional[int]:
    """The first round with at least this test accuracy; None if there is none, or no target."""
    cost = cost_to(rows, target)
    return None if cost is None else cost.rounds


def cost_to(rows: Sequence[Row], target: Optional[float]) -> Optional[Cost]:
    """What it took to reach a test accuracy; None if it was not reached, or there is no target."""
    if target is None:
        return None
    for count, row in enumerate(rows, start=1):
        accuracy = row.get("test_accuracy")
        if accuracy is not None and accuracy >= target:
            seconds, sent = (cumulative(rows[:count], names) for names in (SECONDS, BYTES))
            return Cost(
                int(row["round"]),
                None if seconds is None else seconds[-1],
                None if sent is None else sent[-1],
            )
    return None


_LARGEST = 1e150
SECONDS = ("simulated_seconds",)
BYTES = ("bytes_down", "bytes_up")


def is_usual(value: Optional[float]) -> bool:
    """Whether it is a number whose square is finite too: a damaged file may hold any."""
    return value is not None and abs(value) < _LARGEST


def cumulative(rows: Sequence[Row], columns: Sequence[str]) -> Optional[list[float]]:
    """Sums of the columns up to each round; None where a row lacks one, or it is not finite."""
    if not all(is_usual(row.get(column)) for row in rows for column in columns):
        return None
    return list(itertools.accumulate(sum(row[column] for column in columns) for row in rows))


def spread(values: Iterable[float]) -> Optional[Spread]:
    """Mean and sample standard deviation of the finite values; None if there are none."""
    found = [value for value in values if is_usual(value)]
    if not found:
        return None
    deviation = statistics.stdev(found) if len(found) > 1 else None
    return Spread(statistics.fmean(found), deviation, len(found))
