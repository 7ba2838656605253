"""What the runs of a recipe came to, beside the paper's numbers.

For metrics `..._to_target` a row may have several targets; all are read from the same metrics.csv.
"""

from __future__ import annotations

import pathlib
from collections.abc import Sequence
from typing import Optional

from tff_partial.recipes.plan import Plan, Run
from tff_partial.results import metrics, summary, text_files
from tff_partial.results.schema import Fields, Metric
from tff_partial.similarity import tables


def is_finished(run: Run) -> bool:
    """Return whether nothing is left to do; a run that diverged would do so again."""
    totals = read_summary(run.folder)
    if summary.diverged_at(totals) is not None or (run.folder / "similarity.csv").is_file():
        return True
    # The curves are the last that a run writes.
    files = all((run.folder / name).is_file() for name in ("weights.npz", "curves.png"))
    return files and totals.get("rounds") == run.rounds


def diverged_at(run: Run) -> Optional[int]:
    """Return the round in which a run diverged; None if it did not."""
    return summary.diverged_at(read_summary(run.folder))


def read_summary(folder: pathlib.Path) -> Fields:
    """Read a run's summary.json; empty if there is none."""
    try:
        return text_files.read_json(str(folder / "summary.json"))
    except (OSError, ValueError):
        return {}


def measure(folder: pathlib.Path, metric: Metric, target: Optional[float]) -> Optional[float]:
    """Return the metric of a finished run in its unit; None if a target was not reached."""
    if not metric.has_target:
        value = read_summary(folder).get(metric.name)
        return metric.factor * value if isinstance(value, (int, float)) else None
    cost = metrics.cost_to(metrics.read(str(folder)), target)
    if cost is None:
        return None
    return cost.rounds if metric.name == "rounds_to_target" else cost.simulated_seconds


def table(plan: Plan) -> str:
    """Return a line for each row: the paper's number and that of our finished runs."""
    metric = plan.recipe.metric
    lines = [("row", "paper", "ours", "seeds")]
    for row in plan.rows:
        runs = [run for run in plan.runs if run.row.id == row.id and is_finished(run)]
        lines.append((row.label, row.paper.text, _ours(metric, runs), str(len(runs))))
    unit = f", {metric.unit}" if metric.unit else ""
    return f"{plan.recipe.name}: {metric.label}{unit}\n\n{aligned(lines)}"


def similarities(plan: Plan) -> str:
    """Return the tables of the finished analyses, as each prints it itself."""
    parts = [f"{plan.recipe.name}: {plan.recipe.metric.label}"]
    for run in plan.runs:
        if run.figure is not None and is_finished(run):
            rows = tables.read_csv(str(run.folder / "similarity.csv"))
            parts.append(f"{run.name}\n\n{tables.table(run.figure, rows)}")
    return "\n\n".join(parts)


def aligned(lines: Sequence[Sequence[str]]) -> str:
    """Return lines of texts as columns."""
    widths = [max(map(len, column)) for column in zip(*lines)]
    padded = [[text.ljust(width) for text, width in zip(line, widths)] for line in lines]
    return "\n".join("  ".join(line).rstrip() for line in padded)


def _ours(metric: Metric, runs: Sequence[Run]) -> str:
    """Return the figure of a row's finished runs, and how many of them diverged."""
    diverged = [run for run in runs if diverged_at(run) is not None]
    if not diverged:
        return _figure(metric, runs)
    if len(diverged) == len(runs):
        return f"diverged in round {diverged_at(diverged[0])}"
    text = _figure(metric, [run for run in runs if run not in diverged])
    return f"{text} ({len(diverged)} of {len(runs)} diverged)"


def _figure(metric: Metric, runs: Sequence[Run]) -> str:
    def spread(target: Optional[float]) -> str:
        return _spread([measure(run.folder, metric, target) for run in runs])

    if not runs:
        return "-"
    settings = runs[0].experiment.settings
    sample = settings.eval_examples if metric.has_target else None
    note = "" if sample is None else f" (on {sample:,} test examples)"
    targets = [each.target for each in runs[0].row.paper.targets]
    if not targets:
        return spread(settings.target_accuracy) + note
    return ", ".join(f"{100 * target:g} %: {spread(target)}" for target in targets) + note


def _spread(values: Sequence[Optional[float]]) -> str:
    """Return mean and standard deviation; `*` if a seed did not reach the target."""
    known = [value for value in values if value is not None]
    if len(known) < len(values):
        return "*"
    spread = metrics.spread(known)
    if spread is None:
        return "-"
    mean = f"{spread.mean:.6g}"
    return mean if spread.deviation is None else f"{mean} ± {spread.deviation:.2g}"
