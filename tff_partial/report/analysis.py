"""The table of an analysis of representations: how similar clients' models are, block by block."""

from __future__ import annotations

from tff_partial.report import formats
from tff_partial.report.cells import Cell, Line, Table
from tff_partial.report.recipes import Section
from tff_partial.report.runs import Row, Run
from tff_partial.results import statistics

# Figures of similarity.csv -> heads.
_FIGURES = {"maximum": "largest similarity", "mean": "mean similarity"}


def similarity(section: Section) -> Table:
    """The similarities of the last measurement, mean and standard deviation over seeds."""
    heads = ("row", "scheme", "block", *_FIGURES.values(), "local steps")
    lines = [line for row in section.rows for line in _lines(row)]
    caption = "Similarity (SVCCA) of clients' models at the end, over all pairs of clients"
    return Table(caption, heads, tuple(lines))


def _lines(row: Row) -> list[Line]:
    last = [_last(run) for run in row.finished if run.similarity]
    found = []
    for scheme, block in dict.fromkeys(key for each in last for key in each):
        rows = [each[scheme, block] for each in last if (scheme, block) in each]
        figures = [statistics.spread(float(r[name]) for r in rows) for name in _FIGURES]
        cells = [
            Cell(scheme),
            Cell(block),
            *(Cell(formats.with_spread(figure, formats.significant)) for figure in figures),
            Cell(formats.one_decimal(float(rows[0]["steps"]))),
        ]
        found.append(Line(row.label, tuple(cells), row.is_real))
    return found


def _last(run: Run) -> dict[tuple[str, str], dict[str, str]]:
    """(scheme, block) -> the last of its rows, which are in the order of time."""
    return {(row["scheme"], row["name"]): dict(row) for row in run.similarity}
