"""Curves of a quantity that is measured after every local step: the discrepancy of local models.

Columns `discrepancy_1`, `discrepancy_2`, ... of metrics.csv are those after the steps of a round.
A hundred points would not show what happens within a round, so that 500 steps are drawn one by one,
as in figure 2 of partial averaging: the first ones, and the last ones.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Optional

from tff_partial.report.runs import Run
from tff_partial.results import metrics
from tff_partial.results.schema import MetricsRow

WINDOW = 500
FIRST, LAST = "discrepancy_first", "discrepancy_last"
QUANTITIES = {
    FIRST: f"discrepancy after each of the first {WINDOW} local steps",
    LAST: f"discrepancy after each of the last {WINDOW} local steps",
}


def points(runs: Sequence[Run]) -> dict[str, Optional[dict[str, Any]]]:
    """Return the curves of both windows; x is in rounds, as a step is a part of one."""
    series = [dict(zip(*_series(run.rows))) for run in runs]
    common = sorted(set.intersection(*map(set, series))) if series else []
    windows = {FIRST: common[:WINDOW], LAST: common[-WINDOW:] if len(common) > WINDOW else []}
    return {name: _curve(series, xs) if xs else None for name, xs in windows.items()}


def _series(rows: Sequence[MetricsRow]) -> tuple[list[float], list[float]]:
    """Return x and value of all steps of the rounds in which every step has one."""
    count = 0
    while rows and f"discrepancy_{count + 1}" in rows[0]:
        count += 1
    names = [f"discrepancy_{i + 1}" for i in range(count)]
    xs: list[float] = []
    ys: list[float] = []
    for row in rows:
        values: list[float] = [row[name] for name in names if metrics.is_usual(row.get(name))]
        if len(values) == count:
            xs += [round(row["round"] - 1 + (i + 1) / count, 4) for i in range(count)]
            ys += values
    return xs, ys


def _curve(series: Sequence[dict[float, float]], xs: Sequence[float]) -> dict[str, Any]:
    spreads = [metrics.spread(each[x] for each in series) for x in xs]
    known = [(spread.mean, spread.deviation or 0.0) for spread in spreads if spread]
    return {
        "rounds": [*xs],
        "seconds": None,
        "bytes": None,
        "mean": [float(f"{mean:.4g}") for mean, _ in known],
        "spread": [float(f"{d:.4g}") for _, d in known] if len(series) > 1 else None,
    }
