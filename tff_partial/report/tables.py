"""The tables of a section, the same for the page and for Markdown."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple, Optional

from tff_partial import run_statistics, tiers
from tff_partial.report import formats
from tff_partial.report.recipes import KINDS, Metric, Section
from tff_partial.report.runs import Row

ACCURACY = 100.0
MEGABYTE = 1e-6


class Cell(NamedTuple):
    """What stands in a table; tone is 'better', 'worse', 'missing' or nothing."""

    text: str
    tone: str = ""


class Line(NamedTuple):
    """A row of a table; its data are not the real set where `is_real` is False."""

    head: str
    cells: tuple[Cell, ...]
    is_real: bool


class Table(NamedTuple):
    """A table with its caption; the first of the heads is that of the lines' heads."""

    caption: str
    heads: tuple[str, ...]
    lines: tuple[Line, ...]

    @property
    def is_real(self) -> bool:
        return all(line.is_real for line in self.lines)


def of_section(section: Section) -> list[Table]:
    """Ours beside the paper's, what accuracy cost, and tiers; those that have something to say."""
    found = [compared(section, section.metric)] if section.metric else []
    if any(run.rows for row in section.rows for run in row.runs):
        found.append(costs(section))
    if any(run.settings.get("tiers") for row in section.rows for run in row.runs):
        found.append(tier_overview(section))
    return found


def compared(section: Section, metric: Metric) -> Table:
    """Ours beside the paper's, with the difference."""
    unit = f", {metric.unit}" if metric.unit else ""
    better = {True: "; higher is better", False: "; lower is better", None: ""}
    names = _varied(section)
    # What is varied comes last: on a phone the first columns are those that are seen.
    heads = ("row", f"paper{unit}", f"ours{unit}", "difference", "seeds", *names)
    lines = [
        Line(
            row.label,
            (*_compared_cells(row, metric), _seeds(row), *_varied_cells(row, names)),
            row.is_real,
        )
        for row in section.rows
    ]
    how = "" if section.kind == "runs" else f"; {KINDS[section.kind]}"
    scale = "" if section.scale is None else f"; scale {section.scale:g}"
    caption = f"{metric.label}{better[metric.higher_is_better]}{scale}{how}"
    return Table(caption, heads, tuple(lines))


def _compared_cells(row: Row, metric: Metric) -> tuple[Cell, ...]:
    text = formats.of_unit(metric.unit)
    paper = row.paper.text
    if not paper and row.paper.value is not None:
        given = run_statistics.Spread(row.paper.value, row.paper.spread, 1)
        paper = formats.with_spread(given, text)
    found = row.spread_of(metric.name) if row.finished else None
    missing = _missing(row, metric, found)
    if found is None:
        return Cell(paper or formats.NONE), Cell(missing, "missing"), Cell(formats.NONE)
    ours = formats.with_spread(found, text, metric.factor)
    if missing:
        return Cell(paper or formats.NONE), Cell(f"{ours} ({missing})"), Cell(formats.NONE)
    difference = _difference(metric.factor * found.mean, row.paper.value, metric)
    return Cell(paper or formats.NONE), Cell(ours), difference


def _missing(row: Row, metric: Metric, found: Optional[run_statistics.Spread]) -> str:
    """What is not there of ours, in words; empty if nothing is missing."""
    if not row.runs:
        return "not run"
    if not row.finished:
        furthest = max(row.runs, key=lambda run: len(run.rows))
        return f"{len(furthest.rows)} of {furthest.planned} rounds"
    count = 0 if found is None else found.seeds
    if count == len(row.finished):
        return ""
    word = "reached" if metric.name.endswith("_to_target") else "known"
    return f"{count} of {len(row.finished)} seeds" if count else f"not {word}"


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


def costs(section: Section) -> Table:
    """Accuracies and, where there is a target, what it took to reach it."""
    names = [] if section.metric else _varied(section)
    targets = [run.target for row in section.rows for run in row.runs]
    has_target, has_late = any(targets), _has_late(section)
    heads = ["row", *names, "final accuracy, %", "best accuracy, %"]
    if has_target:
        heads += ["target, %", "rounds to target", "simulated s to target", "MB to target"]
    heads += [*(["late clients a round"] if has_late else []), "rounds", "seeds"]
    lines = []
    for row in section.rows:
        cells = [*_varied_cells(row, names)]
        for name in ("final_test_accuracy", "best_test_accuracy"):
            spread = row.spread_of(name)
            cells.append(Cell(formats.with_spread(spread, formats.percent, ACCURACY)))
        cells += _to_target(row) if has_target else []
        cells += [_late(row)] if has_late else []
        head = row.label if section.metric else row.short or row.label
        lines.append(Line(head, (*cells, _rounds(row), _seeds(row)), row.is_real))
    caption = "Accuracy on test data" + (", and what the target took" if has_target else "")
    return Table(f"{caption}; mean ± standard deviation over seeds", tuple(heads), tuple(lines))


def _to_target(row: Row) -> list[Cell]:
    targets = sorted({run.target for run in row.counted if run.target is not None})
    if not targets:
        return [Cell(formats.NONE)] * 4
    shown = ", ".join(f"{ACCURACY * target:g}" for target in targets)
    found = [cost for cost in (run.cost_to_target() for run in row.counted) if cost]
    if not found:
        return [Cell(shown), Cell("not reached", "missing"), *[Cell(formats.NONE)] * 2]
    some = f" ({len(found)} of {len(row.counted)} seeds)" if len(found) < len(row.counted) else ""
    columns: tuple[tuple[list[Any], formats.Format, float], ...] = (
        ([cost.rounds for cost in found], formats.one_decimal, 1.0),
        ([cost.simulated_seconds for cost in found], formats.significant, 1.0),
        ([cost.bytes for cost in found], formats.significant, MEGABYTE),
    )
    cells = []
    for values, text, factor in columns:
        spread = run_statistics.spread(value for value in values if value is not None)
        cells.append(Cell(formats.with_spread(spread, text, factor) + (some if spread else "")))
    return [Cell(shown), *cells]


def tier_overview(section: Section) -> Table:
    """What tiers there are, who took part, and how well each learned."""
    heads = (
        "row",
        "average capacity",
        "tier",
        "clients",
        "clients a round",
        "training accuracy, %",
    )
    lines = [line for row in section.rows if row.counted for line in _tier_lines(row)]
    caption = "Tiers and capacity; training accuracy of the last five rounds of each tier"
    return Table(caption, heads, tuple(lines))


def _tier_lines(row: Row) -> list[Line]:
    settings = row.counted[0].settings
    text = settings.get("tiers") or f"strong:{settings.get('clients', 0)}"
    found = row.spread_of("average_capacity")
    capacity = formats.NONE if found is None else formats.significant(found.mean)
    lines = []
    for tier in tiers.parse(text):
        accuracy = row.spread_of(f"train_accuracy_{tier.name}")
        cells = (
            Cell(capacity),
            Cell(tier.name),
            Cell(formats.one_decimal(tier.count)),
            Cell(_mean_column(row, f"clients_{tier.name}")),
            Cell(formats.with_spread(accuracy, formats.percent, ACCURACY)),
        )
        lines.append(Line(row.label, cells, row.is_real))
    return lines


def _mean_column(row: Row, column: str) -> str:
    """The mean of a column of metrics.csv over all rounds and seeds."""
    values = [r[column] for run in row.counted for r in run.rows if r.get(column) is not None]
    found = run_statistics.spread(values)
    return formats.NONE if found is None else formats.significant(found.mean)


def _has_late(section: Section) -> bool:
    return any(
        "clients_late" in run.rows[0] for row in section.rows for run in row.runs if run.rows
    )


def _late(row: Row) -> Cell:
    return Cell(_mean_column(row, "clients_late"))


def _rounds(row: Row) -> Cell:
    if not row.runs:
        return Cell("not run", "missing")
    if row.finished:
        return Cell(formats.one_decimal(max(len(run.rows) for run in row.finished)))
    furthest = max(row.runs, key=lambda run: len(run.rows))
    return Cell(f"{len(furthest.rows)} of {furthest.planned}", "missing")


def _seeds(row: Row) -> Cell:
    done, begun = len(row.finished), len(row.runs)
    return Cell(str(done) if done == begun else f"{done} of {begun} finished")


def _varied(section: Section) -> list[str]:
    return list(dict.fromkeys(name for row in section.rows for name in row.columns))


def _varied_cells(row: Row, names: Sequence[str]) -> list[Cell]:
    return [Cell(row.columns.get(name, formats.NONE)) for name in names]
