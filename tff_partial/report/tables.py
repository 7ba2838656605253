"""The tables of a section, the same for the page and for Markdown."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from tff_partial import capacities
from tff_partial.report import analysis, cells, comparison, formats
from tff_partial.report.cells import Cell, Line, Table
from tff_partial.report.recipes import Section
from tff_partial.report.runs import Row
from tff_partial.results import statistics

MEGABYTE = 1e-6
_SELDOM = 0.01  # capacities that are drawn more seldom are not shown


def of_section(section: Section) -> list[Table]:
    """Ours beside the paper's, what accuracy cost, and tiers; those that have something to say."""
    runs = [run for row in section.rows for run in row.runs]
    found = [comparison.compared(section, section.metric)] if section.metric else []
    if any(run.similarity for run in runs):
        found.append(analysis.similarity(section))
    if any(run.rows for run in runs):
        found.append(costs(section))
        if any(run.settings.get("tiers") or run.settings.get("capacities") for run in runs):
            found.append(tier_overview(section))
    return found


def costs(section: Section) -> Table:
    """Accuracies and, where there is a target, what it took to reach it."""
    names = [] if section.metric else cells.varied(section)
    targets = [run.target for row in section.rows for run in row.runs]
    has_target, has_late = any(targets), _has_late(section)
    heads = ["row", *names, "final accuracy, %", "best accuracy, %"]
    if has_target:
        heads += ["target, %", "rounds to target", "simulated s to target", "MB to target"]
    heads += [*(["late clients a round"] if has_late else []), "rounds", "seeds"]
    lines = []
    for row in section.rows:
        line = [*cells.varied_cells(row, names)]
        for name in ("final_test_accuracy", "best_test_accuracy"):
            spread = row.spread_of(name)
            line.append(Cell(formats.with_spread(spread, formats.percent, cells.PERCENT)))
        line += _to_target(row) if has_target else []
        line += [_late(row)] if has_late else []
        head = row.label if section.metric else row.short or row.label
        lines.append(Line(head, (*line, _rounds(row), cells.seeds(row)), row.is_real))
    caption = "Accuracy on test data" + (", and what the target took" if has_target else "")
    return Table(f"{caption}; mean ± standard deviation over seeds", tuple(heads), tuple(lines))


def _to_target(row: Row) -> list[Cell]:
    targets = sorted({run.target for run in row.counted if run.target is not None})
    if not targets:
        return [Cell(formats.NONE)] * 4
    shown = ", ".join(map(cells.percent, targets))
    found = [cost for cost in (run.cost_to_target() for run in row.counted) if cost]
    if not found:
        return [Cell(shown), Cell("not reached", "missing"), *[Cell(formats.NONE)] * 2]
    some = f" ({len(found)} of {len(row.counted)} seeds)" if len(found) < len(row.counted) else ""
    columns: tuple[tuple[list[Any], formats.Format, float], ...] = (
        ([cost.rounds for cost in found], formats.one_decimal, 1.0),
        ([cost.simulated_seconds for cost in found], formats.significant, 1.0),
        ([cost.bytes for cost in found], formats.significant, MEGABYTE),
    )
    line = []
    for values, text, factor in columns:
        spread = statistics.spread(value for value in values if value is not None)
        line.append(Cell(formats.with_spread(spread, text, factor) + (some if spread else "")))
    return [Cell(shown), *line]


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
    lines = [line for row in section.rows if row.runs for line in _tier_lines(row)]
    caption = "Tiers and capacity; training accuracy of the last five rounds of each tier"
    return Table(caption, heads, tuple(lines))


def _tier_lines(row: Row) -> list[Line]:
    found = row.spread_of("average_capacity")
    capacity = formats.NONE if found is None else formats.significant(found.mean)
    lines = []
    for name, count in _tiers(row.counted[0].settings).items():
        accuracy = row.spread_of(f"train_accuracy_{name}")
        line = (
            Cell(capacity),
            Cell(name),
            Cell(count),
            Cell(_mean_column(row, f"clients_{name}")),
            Cell(formats.with_spread(accuracy, formats.percent, cells.PERCENT)),
        )
        lines.append(Line(row.label, line, row.is_real))
    return lines


def _tiers(settings: Mapping[str, Any]) -> dict[str, str]:
    """Tier -> its clients; where capacities are drawn, rate -> how often, if not seldom."""
    if settings.get("capacities"):
        shares = capacities.parse(settings["capacities"])
        return {
            name: f"{cells.PERCENT * share:.3g} % of draws"
            for name, share in shares.items()
            if share >= _SELDOM
        }
    text = settings.get("tiers") or f"strong:{settings.get('clients', 1)}"
    pairs = [tier.rpartition(":") for tier in text.split(",")]
    return {name: count for name, _, count in pairs}


def _mean_column(row: Row, column: str) -> str:
    """The mean of a column of metrics.csv over all rounds and seeds."""
    values = [r[column] for run in row.counted for r in run.rows if r.get(column) is not None]
    found = statistics.spread(values)
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
