"""The table of a recipe: ours beside the paper's, with the difference."""

from __future__ import annotations

from typing import Optional

from tff_partial.report import cells
from tff_partial.report.cells import Cell, Line, Table
from tff_partial.report.recipes import Section
from tff_partial.report.runs import Row
from tff_partial.results.metrics import Spread
from tff_partial.results.schema import KINDS, TO_TARGET, Metric, Published


def compared(section: Section) -> Table:
    """Return ours beside the paper's; a line for each target if there are some."""
    metric = section.results.metric
    unit = f", {metric.unit}" if metric.unit else ""
    has_targets = any(row.paper.targets for row in section.rows)
    has_seeds = section.results.kind != "exact"
    names = cells.varied(section)
    # What is varied is the paper's if ours is smaller or changed. It comes last: on a phone the
    # first columns are those that are seen.
    varied = names if section.is_papers_setting else [f"{name} (paper)" for name in names]
    heads = ["row", *(["target, %"] if has_targets else []), f"paper{unit}", f"ours{unit}"]
    heads += ["difference", *(["seeds"] if has_seeds else []), *varied]
    lines = []
    for row in section.rows:
        for target, paper, ours in _figures(row, metric):
            shown = cells.NONE if target is None else cells.target_text(target)
            line = [Cell(shown)] if has_targets else []
            line += _compared_cells(row, metric, paper, ours, section.is_papers_setting)
            line += [cells.seeds(row)] if has_seeds else []
            line += cells.varied_cells(row, names)
            lines.append(Line(row.label, tuple(line), row.is_real))
    return Table(_caption(section), tuple(heads), tuple(lines))


def _caption(section: Section) -> str:
    metric, kind = section.results.metric, section.results.kind
    better = {True: "; higher is better", False: "; lower is better", None: ""}
    how = "" if kind == "runs" else f"; {KINDS[kind]}"
    label = metric.label[:1].upper() + metric.label[1:]
    return f"{label}{better[metric.higher_is_better]}{how}"


def _figures(row: Row, metric: Metric) -> list[tuple[Optional[float], Published, Optional[Spread]]]:
    """Return (target or None, the paper's figure, ours) of a row."""
    if not row.paper.targets:
        return [(None, row.paper, row.spread_of(metric.name) if row.finished else None)]
    name = metric.name[: -len(TO_TARGET)] if metric.has_target else "rounds"
    return [
        (
            each.target,
            Published(each.value, text="not reached" if each.value is None else ""),
            row.spread_to(each.target, name) if row.finished else None,
        )
        for each in row.paper.targets
    ]


def _compared_cells(
    row: Row, metric: Metric, paper: Published, ours: Optional[Spread], is_papers_setting: bool
) -> list[Cell]:
    """Return the paper's figure, ours and the difference, coloured in the paper's setting."""
    text = cells.of_unit(metric.unit)
    papers = paper.text
    if not papers and paper.value is not None:
        papers = cells.with_spread(Spread(paper.value, paper.spread, 1), text)
    first, missing = Cell(papers or cells.NONE), _missing(row, metric, ours)
    if ours is None:
        return [first, Cell(missing, "missing"), Cell(cells.NONE)]
    shown = _own_text(row) or cells.with_spread(ours, text, metric.factor)
    shown += row.sample_note if metric.has_target else ""
    if missing:
        return [first, Cell(f"{shown} ({missing})"), Cell(cells.NONE)]
    if not row.is_real:  # other data than the paper's
        return [first, Cell(shown), Cell(cells.NONE)]
    difference = _difference(metric.factor * ours.mean, paper.value, metric)
    return [first, Cell(shown), difference if is_papers_setting else Cell(difference.text)]


def _own_text(row: Row) -> str:
    """Return ours as an exact table writes it, which may be more than the number compared."""
    texts = [run.summary.get("text") for run in row.finished if not run.settings]
    return str(texts[0]) if len(texts) == 1 and texts[0] else ""


def _missing(row: Row, metric: Metric, ours: Optional[Spread]) -> str:
    """Return in words what is missing of ours; empty if nothing is."""
    if not row.runs:
        return "not run"
    if not row.finished:
        if row.furthest.diverged_at is not None:
            return f"diverged in round {row.furthest.diverged_at}"
        return f"{len(row.furthest.rows)} of {row.furthest.planned} rounds"
    count = 0 if ours is None else ours.seeds
    if count == len(row.finished):
        return ""
    if count:
        return f"{count} of {len(row.finished)} seeds"
    if any(run.similarity for run in row.finished):
        return "see the table below"
    return "not reached" if metric.has_target else "not known"


def _difference(ours: float, paper: Optional[float], metric: Metric) -> Cell:
    if paper is None:
        return Cell(cells.NONE)
    # Of the figures as they are shown, so that a reader who subtracts gets the same.
    ours = round(ours, 2) if metric.unit == "%" else ours
    text = cells.of_unit(metric.unit)(ours - paper)
    is_zero = not text.strip("0.,−")
    sign = "" if is_zero or text.startswith(cells.MINUS) else "+"
    if metric.higher_is_better is None or is_zero:
        return Cell(sign + text)
    return Cell(sign + text, "better" if (ours > paper) == metric.higher_is_better else "worse")
