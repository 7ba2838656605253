"""The table of a recipe: ours beside the paper's, with the difference."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Optional

from tff_partial.report import cells, formats
from tff_partial.report.cells import Cell, Line, Table
from tff_partial.report.recipes import KINDS, TO_TARGET, Metric, Section
from tff_partial.report.runs import Paper, Row
from tff_partial.results.statistics import Spread


def compared(section: Section, metric: Metric) -> Table:
    """Ours beside the paper's, with the difference; a line for each target where there are some."""
    unit = f", {metric.unit}" if metric.unit else ""
    better = {True: "; higher is better", False: "; lower is better", None: ""}
    has_targets = any(row.paper.targets for row in section.rows)
    names = cells.varied(section)
    # What is varied comes last: on a phone the first columns are those that are seen.
    heads = ["row", f"paper{unit}", f"ours{unit}", "difference"]
    heads += [*(["seeds"] if section.kind != "exact" else []), *_papers(section, names)]
    lines = []
    for row in section.rows:
        for target, paper, ours in _figures(row, metric):
            line = _compared_cells(row, metric, paper, ours)
            line += [cells.seeds(row)] if section.kind != "exact" else []
            line += cells.varied_cells(row, names)
            if has_targets:
                line.insert(0, Cell(formats.NONE if target is None else cells.percent(target)))
            lines.append(Line(row.label, tuple(line), row.is_real))
    if has_targets:
        heads.insert(1, "target, %")
    how = "" if section.kind == "runs" else f"; {KINDS[section.kind]}"
    scale = "" if section.scale is None else f"; {section.scale_text}"
    label = metric.label[:1].upper() + metric.label[1:]
    caption = f"{label}{better[metric.higher_is_better]}{scale}{how}"
    return Table(caption, tuple(heads), tuple(lines))


def _papers(section: Section, names: Sequence[str]) -> Sequence[str]:
    """Heads of what is varied, which is the paper's where ours is smaller or changed."""
    return names if section.is_papers_setting else [f"{name} (paper)" for name in names]


def _figures(row: Row, metric: Metric) -> list[tuple[Optional[float], Paper, Optional[Spread]]]:
    """(target or None, the paper's figure, ours) of a row."""
    if not row.paper.targets:
        return [(None, row.paper, row.spread_of(metric.name) if row.finished else None)]
    name = metric.name[: -len(TO_TARGET)] if metric.name.endswith(TO_TARGET) else "rounds"
    return [
        (
            target,
            Paper(value, text="not reached" if value is None else ""),
            row.spread_to(target, name) if row.finished else None,
        )
        for target, value in row.paper.targets
    ]


def _compared_cells(row: Row, metric: Metric, paper: Paper, found: Optional[Spread]) -> list[Cell]:
    text = formats.of_unit(metric.unit)
    papers = paper.text
    if not papers and paper.value is not None:
        papers = formats.with_spread(Spread(paper.value, paper.spread, 1), text)
    first, missing = Cell(papers or formats.NONE), _missing(row, metric, found)
    if found is None:
        return [first, Cell(missing, "missing"), Cell(formats.NONE)]
    ours = _own_text(row) or formats.with_spread(found, text, metric.factor)
    if missing:
        return [first, Cell(f"{ours} ({missing})"), Cell(formats.NONE)]
    return [first, Cell(ours), _difference(metric.factor * found.mean, paper.value, metric)]


def _own_text(row: Row) -> str:
    """Ours as an exact table writes it: it may have more than the number that is compared."""
    texts = [run.summary.get("text") for run in row.finished if not run.config]
    return str(texts[0]) if len(texts) == 1 and texts[0] else ""


def _missing(row: Row, metric: Metric, found: Optional[Spread]) -> str:
    """What is not there of ours, in words; empty if nothing is missing."""
    if not row.runs:
        return "not run"
    if not row.finished:
        furthest = max(row.runs, key=lambda run: len(run.rows))
        if furthest.diverged_at is not None:
            return f"diverged in round {furthest.diverged_at}"
        return f"{len(furthest.rows)} of {furthest.planned} rounds"
    count = 0 if found is None else found.seeds
    if count == len(row.finished):
        return ""
    if count:
        return f"{count} of {len(row.finished)} seeds"
    if any(run.similarity for run in row.finished):
        return "see the table below"
    return "not reached" if metric.name.endswith(TO_TARGET) else "not known"


def _difference(ours: float, paper: Optional[float], metric: Metric) -> Cell:
    if paper is None:
        return Cell(formats.NONE)
    # Of the figures as they are shown, so that a reader who subtracts finds the same.
    ours = round(ours, 2) if metric.unit == "%" else ours
    text = formats.of_unit(metric.unit)(ours - paper)
    is_zero = not text.strip("0.,−")
    sign = "" if is_zero or text.startswith(formats.MINUS) else "+"
    if metric.higher_is_better is None or is_zero:
        return Cell(sign + text)
    return Cell(sign + text, "better" if (ours > paper) == metric.higher_is_better else "worse")
