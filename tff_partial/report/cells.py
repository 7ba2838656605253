"""What tables consist of, and the cells that several tables have."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from tff_partial.report import formats
from tff_partial.report.recipes import Section
from tff_partial.report.runs import Row

PERCENT = 100.0


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
    return [Cell(row.columns.get(name, formats.NONE)) for name in names]


def percent(share: float) -> str:
    """Return a share as a table's target has it."""
    return f"{PERCENT * share:g}"
