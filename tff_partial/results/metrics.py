"""metrics.csv: the rows of a run, what it took to reach an accuracy, and the spread over seeds.

A target counts as reached in the first round whose evaluation reaches it, on a sample of the test
data or on all; its cost is the sum over the rounds up to that one.
"""

from __future__ import annotations

import itertools
import os
import statistics
from collections.abc import Iterable, Sequence
from typing import NamedTuple, Optional

from tff_partial.results.schema import MetricsRow
from tff_partial.results.text_files import LARGEST, ResultsError, read_csv

SAMPLED = "sampled_test"
"""How columns begin, in place of `test`, where a round was tested on a sample of the test data."""

SAMPLED_ACCURACY = f"{SAMPLED}_accuracy"
OVER_CLIENTS = ("mean", "lowest_tenth", "spread")
"""How columns `test_client_accuracy_...` end."""

SECONDS = ("simulated_seconds",)
BYTES = ("bytes_down", "bytes_up")
_LARGEST_USUAL = 1e150


class Cost(NamedTuple):
    """What was spent up to a round; None if metrics.csv does not say."""

    rounds: int
    simulated_seconds: Optional[float]
    bytes: Optional[float]


class Spread(NamedTuple):
    """A mean over seeds with the sample standard deviation, None for a single seed."""

    mean: float
    deviation: Optional[float]
    seeds: int


def read(folder: str) -> list[MetricsRow]:
    """Read the rows of a run: floats, None where a cell is empty; no rows without a file.

    Raises:
      ResultsError: If it is not a table of numbers with a round in every row.
    """
    try:
        table = read_csv(os.path.join(folder, "metrics.csv"))
        rows: list[MetricsRow] = [
            {name: float(text) if text else None for name, text in row.items()} for row in table
        ]
    except FileNotFoundError:
        return []
    except ValueError as error:
        raise ResultsError(f"metrics.csv must hold numbers. Received: {folder}: {error}") from None
    for row in rows:
        number = row.get("round")
        if number is None or not 0 <= number <= LARGEST:
            raise ResultsError(f"metrics.csv must have rounds. Received: {folder}, round={number}")
    return rows


def values(rows: Sequence[MetricsRow], column: str) -> list[float]:
    """Return the values of a column, without the rounds that have none."""
    return [row[column] for row in rows if row.get(column) is not None]


def rounds_to(rows: Sequence[MetricsRow], target: Optional[float]) -> Optional[int]:
    """Return the first round that reaches a test accuracy; None if none does."""
    cost = cost_to(rows, target)
    return None if cost is None else cost.rounds


def cost_to(rows: Sequence[MetricsRow], target: Optional[float]) -> Optional[Cost]:
    """Return what it took to reach a test accuracy; None if there is no target or no round did."""
    if target is None:
        return None
    for count, row in enumerate(rows, start=1):
        sampled = row.get(SAMPLED_ACCURACY)
        accuracy = row.get("test_accuracy") if sampled is None else sampled
        if accuracy is not None and accuracy >= target:
            sums = [cumulative(rows[:count], columns) for columns in (SECONDS, BYTES)]
            seconds, sent = (None if each is None else each[-1] for each in sums)
            return Cost(int(row["round"]), seconds, sent)
    return None


def sample_size(rows: Sequence[MetricsRow]) -> Optional[int]:
    """Return the size of the sample that rounds were tested on; None if all took all examples."""
    sizes = values([row for row in rows if row.get(SAMPLED_ACCURACY) is not None], "test_examples")
    return max((int(size) for size in sizes if is_usual(size)), default=None)


def is_usual(value: Optional[float]) -> bool:
    """Return whether it is a number with a finite square: a damaged file may hold any."""
    return value is not None and abs(value) < _LARGEST_USUAL


def cumulative(rows: Sequence[MetricsRow], columns: Sequence[str]) -> Optional[list[float]]:
    """Return the sum of the columns up to each round; None if a row lacks a usual number."""
    if not all(is_usual(row.get(column)) for row in rows for column in columns):
        return None
    return list(itertools.accumulate(sum(row[column] for column in columns) for row in rows))


def spread(numbers: Iterable[float]) -> Optional[Spread]:
    """Return mean and sample standard deviation of the usual numbers; None if there are none."""
    usual = [number for number in numbers if is_usual(number)]
    if not usual:
        return None
    deviation = statistics.stdev(usual) if len(usual) > 1 else None
    return Spread(statistics.fmean(usual), deviation, len(usual))
