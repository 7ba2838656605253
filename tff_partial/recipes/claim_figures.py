"""The figures that claims compare: of our runs, by seed, and of the paper."""

from __future__ import annotations

import statistics
from collections.abc import Mapping, Sequence
from typing import NamedTuple, Optional

from tff_partial.recipes.claim_rules import Baseline, Claim, Comparison
from tff_partial.recipes.schema import Recipe
from tff_partial.report.runs import Row, Run
from tff_partial.results import metrics
from tff_partial.results.schema import Metric, Published

PERCENT = 100.0
# Figures of a column of metrics.csv.
_OF_COLUMN = {"mean": statistics.fmean, "last": lambda values: values[-1]}


class Measured(NamedTuple):
    """A figure of a run; `at_least` if it is only known not to be smaller."""

    value: float
    at_least: bool = False


Figures = dict[str, Measured]
"""The figures of one seed by the names in a rule, `<row>` or `<row>@<key>`."""


def metric_of(recipe: Recipe, claim: Claim) -> Metric:
    """Return what a claim compares."""
    return Metric(claim.figure, claim.figure, claim.unit) if claim.figure else recipe.metric


def by_seed(
    comparisons: Sequence[Comparison], rows: Mapping[str, Row], metric: Metric
) -> dict[int, Figures]:
    """Return seed -> the figures of the rows, for the seeds that all rows have finished."""
    names = dict.fromkeys(name for each in comparisons for name in each.names)
    found: dict[int, Figures] = {}
    for name in names:
        row_id, _, key = name.partition("@")
        for run in counted(rows.get(row_id)):
            measured = measure(run, metric, key)
            if measured is not None:
                found.setdefault(run.seed, {})[name] = measured
    return {seed: found[seed] for seed in sorted(found) if len(found[seed]) == len(names)}


def counted(row: Optional[Row]) -> list[Run]:
    """Return the finished runs of a row on real data, the paper's or others."""
    runs = row.finished if row else ()
    return [run for run in runs if not run.data.startswith("embedded:")]


def measure(run: Run, metric: Metric, key: str = "") -> Optional[Measured]:
    """Return a run's figure in the metric's unit; None if it has none.

    Args:
      run: A finished run.
      metric: What is measured.
      key: A target accuracy, or `<scheme>/<block>` of a similarity.
    """
    if run.similarity:
        rows = [r for r in run.similarity if f"{r['scheme']}/{r['name']}" == key]
        return Measured(float(rows[-1]["maximum"])) if rows else None
    if metric.has_target:
        return _to_target(run, metric, float(key) if key else run.target)
    figure, _, column = metric.name.partition(":")
    if column:
        values = metrics.values(run.rows, column)
        return Measured(_OF_COLUMN[figure](values)) if values else None
    value = run.summary.get(metric.name)
    return Measured(metric.factor * value) if isinstance(value, (int, float)) else None


def _to_target(run: Run, metric: Metric, target: Optional[float]) -> Optional[Measured]:
    """Return what a target took; if it was not reached, what all rounds took."""
    cost = metrics.cost_to(run.rows, target)
    if metric.name == "rounds_to_target":
        return Measured(len(run.rows), True) if cost is None else Measured(cost.rounds)
    if cost is None:
        total = metrics.cumulative(run.rows, metrics.SECONDS)
        return Measured(total[-1], True) if total else None
    return None if cost.simulated_seconds is None else Measured(cost.simulated_seconds)


def accuracy_of(row: Optional[Row], seeds: Sequence[int]) -> float:
    """Return the best accuracy of a row in %, the mean over these seeds; 0 if it was not run."""
    runs = [run for run in counted(row) if run.seed in seeds]
    values = [run.summary.get("best_test_accuracy") for run in runs]
    return PERCENT * statistics.fmean([v for v in values if v is not None] or [0.0])


def needed_accuracy(baseline: Baseline, recipe: Recipe) -> float:
    """Return the accuracy in % that a baseline must have to count as learnt."""
    if baseline.accuracy is not None:
        return baseline.share * baseline.accuracy
    row = next(row for row in recipe.rows if row.id == baseline.row)
    if recipe.metric.has_target:
        return baseline.share * PERCENT * float(row.settings.get("target_accuracy", 0.0))
    return baseline.share * (row.paper.value or 0.0)


def of_paper(comparison: Comparison, recipe: Recipe, claim: Claim) -> Optional[float]:
    """Return the paper's figure of what is compared; None if it does not print all of it."""
    if claim.figure:
        return None
    papers = {row.id: row.paper for row in recipe.rows}
    values = {}
    for name in comparison.names:
        row_id, _, key = name.partition("@")
        value = _published(papers[row_id], key)
        if value is None:
            return None
        values[name] = value
    return comparison.value(values)


def _published(paper: Published, key: str) -> Optional[float]:
    if not key:
        return paper.value
    targets = {f"{each.target:g}": each.value for each in paper.targets}
    return targets.get(key)


def is_equal(ours: str, paper: str) -> bool:
    """Return whether two cells of an exact table are equal, but for what stands in brackets."""
    return ours.split(" (")[0] == paper.split(" (")[0]
