"""What the runs of a recipe came to, beside the paper's numbers."""

from __future__ import annotations

import dataclasses
import pathlib
from collections.abc import Sequence
from typing import Optional

from tff_partial.recipes.plan import Plan, Run
from tff_partial.report import comparison, recipes
from tff_partial.results import neurons, summary, text_files
from tff_partial.results.schema import Fields
from tff_partial.similarity import tables


def is_finished(run: Run) -> bool:
    """Return whether nothing is left to do; a run that diverged would do so again."""
    totals = read_summary(run.folder)
    if summary.diverged_at(totals) is not None:
        return True
    if run.result:
        return (run.folder / run.result).is_file()
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


def table(plan: Plan) -> str:
    """Return the report's comparison with the paper, of the rows that were asked for."""
    folder = str(plan.folder)
    section = recipes.read(folder, folder)
    ids = {row.id for row in plan.rows}
    rows = tuple(row for row in section.rows if row.id in ids)
    compared = comparison.compared(dataclasses.replace(section, rows=rows))
    lines = [[line.head, *(cell.text for cell in line.cells)] for line in compared.lines]
    text = f"{plan.recipe.name}: {compared.caption}\n\n{aligned([compared.heads, *lines])}"
    return "\n\n".join(filter(None, [text, embedded(plan)]))


def embedded(plan: Plan) -> str:
    """Return a warning if embedded data stand in for real ones; empty if none do."""
    names = sorted({run.experiment.task.name for run in plan.runs if run.is_embedded})
    if not names:
        return ""
    return f"embedded data stand in for {', '.join(names)}: figures say nothing about the real set"


def similarities(plan: Plan) -> str:
    """Return the tables of the finished analyses, as each prints it itself."""
    parts = [f"{plan.recipe.name}: {plan.recipe.metric.label}"]
    for run in plan.runs:
        if run.result and is_finished(run):
            parts.append(f"{run.name}\n\n{_analysis(run, str(run.folder / run.result))}")
    return "\n\n".join(parts)


def _analysis(run: Run, path: str) -> str:
    """Return the table of an analysis."""
    if run.figure is None:
        return aligned(neurons.table(neurons.read(path)))
    return tables.table(run.figure, tables.read_csv(path))


def aligned(lines: Sequence[Sequence[str]]) -> str:
    """Return lines of texts as columns."""
    widths = [max(map(len, column)) for column in zip(*lines)]
    padded = [[text.ljust(width) for text, width in zip(line, widths)] for line in lines]
    return "\n".join("  ".join(line).rstrip() for line in padded)
