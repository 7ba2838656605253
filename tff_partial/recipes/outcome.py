"""What the runs of a recipe came to, beside the paper's numbers.

For metrics `..._to_target` a row may have several targets: all of them are read from the same run's
metrics.csv.
"""

from __future__ import annotations

import pathlib
from collections.abc import Mapping, Sequence
from typing import Any, Optional

from tff_partial.recipes.plan import Plan, Run
from tff_partial.recipes.schema import Metric
from tff_partial.results import folder as results
from tff_partial.results import statistics
from tff_partial.similarity import tables


def is_finished(run: Run) -> bool:
    """Whether nothing is left to do of a run: the curves are the last that it writes.

    One that diverged would diverge again in the same way.
    """
    if diverged_at(run) is not None:
        return True
    if (run.folder / "similarity.csv").is_file():
        return True
    files = all((run.folder / name).is_file() for name in ("weights.npz", "curves.png"))
    return files and read_summary(run.folder).get("rounds") == run.rounds


def diverged_at(run: Run) -> Optional[int]:
    """The round in which a run diverged; None if it did not."""
    return results.diverged_at(read_summary(run.folder))


def read_summary(folder: pathlib.Path) -> dict[str, Any]:
    """A run's summary.json; empty if there is none."""
    try:
        return results.read_json(str(folder / "summary.json"))
    except (OSError, ValueError):
        return {}


def measure(folder: pathlib.Path, metric: Metric, target: Optional[float]) -> Optional[float]:
    """The metric of a finished run, in its unit; None where a target was not reached."""
    if not metric.name.endswith("_to_target"):
        value = read_summary(folder).get(metric.name)
        if not isinstance(value, (int, float)):
            return None
        return 100 * value if metric.unit == "%" else value
    cost = statistics.cost_to(results.read_metrics(str(folder)), target)
    if cost is None:
        return None
    return cost.rounds if metric.name == "rounds_to_target" else cost.simulated_seconds


def table(plan: Plan) -> str:
    """A row of the recipe a line: the paper's number and ours, as far as runs are finished."""
    by_row: dict[str, list[Run]] = {row.id: [] for row in plan.rows}
    for run in plan.runs:
        if is_finished(run):
            by_row[run.row.id].append(run)
    lines = [("row", "paper", "ours", "seeds")]
    for row in plan.rows:
        runs = by_row[row.id]
        lines.append((row.label, row.paper.text, _ours(plan.recipe.metric, runs), str(len(runs))))
    label, unit = plan.recipe.metric.label, plan.recipe.metric.unit
    return f"{plan.recipe.name}: {label}{f', {unit}' if unit else ''}\n\n{aligned(lines)}"


def similarities(plan: Plan) -> str:
    """The table of every analysis that is finished, as it prints it itself."""
    found = [f"{plan.recipe.name}: {plan.recipe.metric.label}"]
    for run in plan.runs:
        if run.figure is not None and is_finished(run):
            rows = tables.read_csv(str(run.folder / "similarity.csv"))
            found.append(f"{run.name}\n\n{tables.table(run.figure, rows)}")
    return "\n\n".join(found)


def aligned(lines: Sequence[Sequence[str]]) -> str:
    """Lines of texts as columns."""
    widths = [max(map(len, column)) for column in zip(*lines)]
    padded = [[text.ljust(width) for text, width in zip(line, widths)] for line in lines]
    return "\n".join("  ".join(line).rstrip() for line in padded)


def _ours(metric: Metric, runs: Sequence[Run]) -> str:
    """The figure of a row's finished runs, and how many of them diverged."""
    diverged = [run for run in runs if diverged_at(run) is not None]
    if not diverged:
        return _figure(metric, runs)
    if len(diverged) == len(runs):
        return f"diverged in round {diverged_at(diverged[0])}"
    text = _figure(metric, [run for run in runs if run not in diverged])
    return f"{text} ({len(diverged)} of {len(runs)} diverged)"


def _figure(metric: Metric, runs: Sequence[Run]) -> str:
    if not runs:
        return "-"
    targets = [target for target, _ in runs[0].row.paper.targets]
    if not targets:
        own = runs[0].experiment.settings.target_accuracy
        return _spread([measure(run.folder, metric, own) for run in runs])
    found: Mapping[float, str] = {
        target: _spread([measure(run.folder, metric, target) for run in runs]) for target in targets
    }
    return ", ".join(f"{100 * target:g} %: {text}" for target, text in found.items())


def _spread(values: Sequence[Optional[float]]) -> str:
    """Mean and standard deviation; `*` if it was not reached with a seed."""
    found = [value for value in values if value is not None]
    if len(found) < len(values):
        return "*"
    spread = statistics.spread(found)
    if spread is None:
        return "-"
    mean = f"{spread.mean:.6g}"
    return mean if spread.deviation is None else f"{mean} ± {spread.deviation:.2g}"
