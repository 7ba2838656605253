"""What a sweep says: its best setting."""

from __future__ import annotations

from typing import Optional

from tff_partial.report import cells
from tff_partial.report.recipes import Section
from tff_partial.report.runs import Row
from tff_partial.results import metrics


def is_sweep(section: Section) -> bool:
    """Return whether the section is a sweep, not a recipe or single runs."""
    return bool(section.results.metric.name) and not section.results.recipe


def spread_of(section: Section, row: Row) -> Optional[metrics.Spread]:
    """Return the metric of a setting over its finished seeds; None if there is none."""
    name = section.results.metric.name
    return row.spread_of(name) if row.finished else None


def best(section: Section) -> Optional[Row]:
    """Return the best setting of a sweep; None if there is none.

    Means are compared of settings with equally many seeds, the most that any has: one whose other
    seeds diverged or are not finished is left out.
    """
    if not is_sweep(section):
        return None
    known = [(spread, row) for row in section.rows if (spread := spread_of(section, row))]
    most = max((spread.seeds for spread, _ in known), default=0)
    sign = 1 if section.results.metric.higher_is_better else -1
    counted = [(sign * spread.mean, row) for spread, row in known if spread.seeds == most]
    return max(counted, key=lambda pair: pair[0])[1] if counted else None


def verdict(section: Section) -> str:
    """Return the best setting, its spread and the metric as text; empty if it is no sweep."""
    row = best(section)
    if row is None:
        return ""
    metric, spread = section.results.metric, spread_of(section, row)
    assert spread is not None
    unit = f" {metric.unit}" if metric.unit else ""
    figure = cells.with_spread(spread, cells.of_unit(metric.unit), metric.factor) + unit
    seeds = (
        "1 seed" if spread.seeds == 1 else f"mean ± standard deviation over {spread.seeds} seeds"
    )
    count, total = sum(bool(each.finished) for each in section.rows), len(section.rows)
    of = f"{count} settings" if count == total else f"{count} finished settings of {total}"
    name = "The setting" if total == 1 else f"Best of {of} by {metric.label}"
    end = "" if total == 1 else " It was chosen on the test data, which favours it."
    shown = f"{metric.label} {figure}" if total == 1 else figure
    return f"{name}: {row.label}, {shown} ({seeds}).{end}"
