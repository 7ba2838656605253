"""Curves with their spread over seeds, against rounds, simulated seconds and bytes."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple, Optional

from typing_extensions import TypeAlias

from tff_partial.report import steps
from tff_partial.report.recipes import Section
from tff_partial.report.runs import Row, Run
from tff_partial.results import metrics
from tff_partial.results.checks import Json

PERCENT = 100.0
# Column of metrics.csv -> (what the page calls it, factor). Only what a run has is shown.
QUANTITIES = {
    "test_accuracy": ("test accuracy, %", PERCENT),
    metrics.SAMPLED_ACCURACY: ("accuracy on a sample of the test data, %", PERCENT),
    "test_accuracy_all_clients": ("test accuracy of all clients' mean, %", PERCENT),
    "train_loss": ("training loss of the clients", 1.0),
    "global_loss": ("loss of the global model on the clients' data", 1.0),
    "min_local_loss": ("smallest loss of a local model", 1.0),
    "discrepancy_before": ("discrepancy of the local models before the average", 1.0),
    "discrepancy": ("discrepancy of the local models", 1.0),
    **{name: (title, 1.0) for name, title in steps.QUANTITIES.items()},
}
AXES = {"rounds": "rounds", "seconds": "simulated seconds", "bytes": "bytes"}
MOST_POINTS = 100


class Drawing(NamedTuple):
    """A figure of a paper that is drawn from a section's curves.

    Attributes:
      name: Such as `partial_averaging/figure6`.
      title: What it shows.
      ids: The rows that it draws.
      quantities: What it draws of them, the first to begin with.
    """

    name: str
    title: str
    ids: tuple[str, ...]
    quantities: tuple[str, ...]


Points: TypeAlias = dict[str, Optional[list[float]]]
"""The x of a curve for each of `AXES`, None if it is not known, then `mean` and `spread`."""

Curve: TypeAlias = dict[str, Json]
"""A row: its `id`, `label`, `is_real`, how many `seeds`, and `quantities`, column -> `Points`."""

Figure: TypeAlias = dict[str, Json]
"""A section: its `title`, `curves`, `quantities`, column -> what it is called, and `target`."""


def figure(section: Section) -> Optional[Figure]:
    """Return the figure of a section; None if there is nothing to draw."""
    curves = [curve for curve in map(_curve, section.rows) if curve["quantities"]]
    if not curves:
        return None
    targets = {run.target or 0.0 for row in section.rows for run in row.runs}
    return {
        "title": section.title,
        "curves": curves,
        "quantities": {
            name: title
            for name, (title, _) in QUANTITIES.items()
            if any(name in curve["quantities"] for curve in curves)
        },
        "target": rounded(PERCENT * max(targets)) if len(targets) == 1 and any(targets) else None,
    }


def _curve(row: Row) -> Curve:
    points = {name: _points(row.counted, name, factor) for name, (_, factor) in QUANTITIES.items()}
    points |= steps.points(row.counted)
    return {
        "id": row.id,
        "label": row.label,
        "is_real": row.is_real,
        "seeds": len(row.counted),
        "quantities": {name: each for name, each in points.items() if each},
    }


def _points(runs: Sequence[Run], column: str, factor: float) -> Optional[Points]:
    """Return the points at the rounds in which every run has a value."""
    places = [_places(run, column) for run in runs]
    common = thin(sorted(set.intersection(*map(set, places)))) if places else []
    if not common:
        return None
    spreads = [
        metrics.spread(run.rows[at[done]][column] for run, at in zip(runs, places))
        for done in common
    ]
    known = [(spread.mean, spread.deviation or 0.0) for spread in spreads if spread]
    return {
        "rounds": [*common],
        "seconds": _mean_sums(runs, places, common, metrics.SECONDS),
        "bytes": _mean_sums(runs, places, common, metrics.BYTES),
        "mean": [_shown(factor, mean) for mean, _ in known],
        "spread": [_shown(factor, deviation) for _, deviation in known] if len(runs) > 1 else None,
    }


def _shown(factor: float, value: float) -> float:
    """Round a value; percentages have the decimals of the tables, so that both show the same."""
    return round(PERCENT * value, 2) if factor == PERCENT else rounded(factor * value)


def _places(run: Run, column: str) -> dict[int, int]:
    """Return round -> place among the rows, of those with a finite value."""
    return {
        int(row["round"]): place
        for place, row in enumerate(run.rows)
        if metrics.is_usual(row.get(column))
    }


def _mean_sums(
    runs: Sequence[Run],
    places: Sequence[dict[int, int]],
    common: Sequence[int],
    columns: Sequence[str],
) -> Optional[list[float]]:
    """Return the mean over runs of what was spent up to each round."""
    sums = [metrics.cumulative(run.rows, columns) for run in runs]
    known = [each for each in sums if each is not None]
    if len(known) < len(runs):
        return None
    return [
        rounded(sum(each[at[done]] for each, at in zip(known, places)) / len(runs), 6)
        for done in common
    ]


def thin(values: Sequence[int], most: int = MOST_POINTS) -> list[int]:
    """Return at most so many of the values, evenly spaced, the first and the last among them."""
    if len(values) <= most:
        return list(values)
    last = len(values) - 1
    return [values[round(i * last / (most - 1))] for i in range(most)]


def rounded(value: float, digits: int = 5) -> float:
    """Round to significant digits, whole numbers without a point, to keep the page small."""
    number = float(f"{value:.{digits}g}")
    return int(number) if number.is_integer() else number
