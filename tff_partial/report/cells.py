"""What tables consist of: numbers as texts, and the cells that several tables have."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Callable, NamedTuple, Optional

from tff_partial.report.recipes import Section
from tff_partial.report.runs import Row
from tff_partial.results.metrics import Spread

PERCENT = 100.0
NONE = "–"
MINUS = "−"
Format = Callable[[float], str]


def percent(value: float) -> str:
    """Format a figure that is already in percent."""
    return _signed(f"{value:.2f}")


def one_decimal(value: float) -> str:
    """Format a count, whose mean over seeds need not be whole."""
    if not math.isfinite(value):
        return NONE
    return _signed(f"{value:,.0f}" if value == round(value) else f"{value:,.1f}")


def significant(value: float) -> str:
    """Format four significant digits; no power of ten below ten digits."""
    if not math.isfinite(value):
        return NONE
    if value == 0 or 1e-4 <= abs(value) < 1e10:
        digits = 3 - (math.floor(math.log10(abs(value))) if value else 0)
        text = f"{round(value, digits):,.{max(digits, 0)}f}"
        return _signed(text.rstrip("0").rstrip(".") if "." in text else text)
    return _signed(f"{value:.4g}")


def _signed(text: str) -> str:
    return text.replace("-", MINUS)


def with_spread(spread: Optional[Spread], text: Format, factor: float = 1.0) -> str:
    """Format 'mean ± standard deviation', or the mean alone if there is one seed."""
    if spread is None:
        return NONE
    mean = text(factor * spread.mean)
    if spread.deviation is None:
        return mean
    deviation = factor * spread.deviation
    # As many decimals as the mean; one where the mean happens to be whole.
    decimals = len(mean.partition(".")[2]) or int(not deviation.is_integer())
    return f"{mean} ± {deviation:,.{decimals}f}"


def of_unit(unit: str) -> Format:
    """Return the format of a unit's figures."""
    return {"%": percent, "rounds": one_decimal}.get(unit, significant)


class Cell(NamedTuple):
    """Text in a table; tone is 'better', 'worse', 'missing' or empty."""

    text: str
    tone: str = ""


class Line(NamedTuple):
    """A row of a table; its data are not the real set if `is_real` is False."""

    head: str
    cells: tuple[Cell, ...]
    is_real: bool


class Table(NamedTuple):
    """A table with its caption; the first of the heads is that of the lines' heads."""

    caption: str
    heads: tuple[str, ...]
    lines: tuple[Line, ...]


def seeds(row: Row) -> Cell:
    """Return how many of the seeds are finished, and how many diverged."""
    done, begun = len(row.finished), len(row.runs)
    diverged = sum(run.diverged_at is not None for run in row.runs)
    text = str(done) if done == begun else f"{done} of {begun} finished"
    return Cell(f"{text}, {diverged} diverged" if diverged else text)


def varied(section: Section) -> list[str]:
    """Return the names of what is varied within a section and is not in the labels already."""
    names = dict.fromkeys(name for row in section.rows for name in row.columns)
    return [name for name in names if not all(_is_in_label(row, name) for row in section.rows)]


def _is_in_label(row: Row, name: str) -> bool:
    return not row.short and row.columns.get(name) in row.label.split(", ")


def varied_cells(row: Row, names: Sequence[str]) -> list[Cell]:
    """Return a row's values of what is varied."""
    return [Cell(row.columns.get(name, NONE)) for name in names]


def target_text(share: float) -> str:
    """Return a target accuracy in percent."""
    return f"{PERCENT * share:g}"
