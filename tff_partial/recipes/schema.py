"""The format of recipes: what a TOML document may hold, and the recipe that it describes.

Rows are written out under `rows`, or they are the combinations of `axes` for which `numbers` has an
entry; the last axis runs along its lists. Settings of `combinations` apply to rows with all of
their ids. `reduced` has settings of `--reduced`, `claims` what the paper says about the rows.
docs/reproducing.md has examples.
"""

from __future__ import annotations

import dataclasses
import itertools
import math
import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Optional

from tff_partial.recipes import claim_rules
from tff_partial.report.curves import QUANTITIES
from tff_partial.results import checks
from tff_partial.results.checks import Json, fail
from tff_partial.results.schema import KINDS, Fields, Metric, Published, RecipeRow, Target

# Metrics of runs; exact tables and analyses may have others.
METRICS = (
    "best_test_accuracy",
    "final_test_accuracy",
    "rounds_to_target",
    "simulated_seconds_to_target",
)
NO_RUN = "-"  # in place of a number: the paper has no such run
MOST_ROWS, LONGEST_ID = 1000, 200  # ids are names of folders
_ROW_ID = re.compile(r"[a-z0-9][a-z0-9._-]*")
_PART_ID = re.compile(r"[a-z0-9][a-z0-9._]*")
_NUMBER = re.compile(r"(\d+(?:\.\d+)?)(?: ± (\d+(?:\.\d+)?))?")


@dataclasses.dataclass(frozen=True)
class Row(RecipeRow):
    """A row with its settings: the flags at the paper's scale, and what `--reduced` changes."""

    settings: Fields = dataclasses.field(default_factory=dict)
    reduced: Mapping[str, Reduced] = dataclasses.field(default_factory=dict)


@dataclasses.dataclass(frozen=True)
class Reduced:
    """A setting of `--reduced`: its value, and why it differs from the paper's."""

    value: Any
    why: str


@dataclasses.dataclass(frozen=True)
class Recipe:
    """A table or figure.

    Attributes:
      name: Such as `embracing/table3`.
      title: What the table shows.
      paper: The citation.
      kind: `runs`; `exact` (nothing is trained, `source` is a key of `exact.TABLES`); or
        `analysis` (`source` is one of `plan.ANALYSES`, run with the rows' settings as its flags).
      metric: What the numbers are.
      rows: The rows, in the paper's order.
      notes: What the paper leaves open, and how it is read here.
      source: See `kind`.
      claims: What the paper says about the rows.
      measured: What the baseline reached with the reduced settings, and how long it took.
      of: The recipe whose runs these are, for a figure that is drawn from a table's (`drawings`).
      quantities: What the paper draws of the rows: keys of the report's `QUANTITIES`, the first to
        begin with.
    """

    name: str
    title: str
    paper: str
    kind: str
    metric: Metric
    rows: tuple[Row, ...]
    notes: tuple[str, ...] = ()
    source: str = ""
    claims: tuple[claim_rules.Claim, ...] = ()
    measured: str = ""
    of: str = ""
    quantities: tuple[str, ...] = ()


@dataclasses.dataclass(frozen=True)
class _Value:
    """A row, or a value of an axis, which has no `paper`."""

    id: str
    label: str
    paper: Json = None
    columns: Mapping[str, str] = dataclasses.field(default_factory=dict)
    settings: Fields = dataclasses.field(default_factory=dict)
    targets: tuple[float, ...] = ()
    stands_in: bool = False
    reduced: Fields = dataclasses.field(default_factory=dict)


@dataclasses.dataclass(frozen=True)
class _Axis:
    column: str
    values: tuple[_Value, ...]


@dataclasses.dataclass(frozen=True)
class _Combination:
    ids: tuple[str, ...]
    settings: Fields = dataclasses.field(default_factory=dict)
    reduced: Fields = dataclasses.field(default_factory=dict)


@dataclasses.dataclass(frozen=True)
class _Document:
    """A TOML file; see the module's docstring."""

    title: str
    paper: str
    kind: str
    metric: Metric
    notes: tuple[str, ...] = ()
    source: Optional[str] = None
    settings: Fields = dataclasses.field(default_factory=dict)
    rows: Optional[tuple[_Value, ...]] = None
    axes: Optional[tuple[_Axis, ...]] = None
    combinations: tuple[_Combination, ...] = ()
    numbers: Optional[Fields] = None
    reduced: Fields = dataclasses.field(default_factory=dict)
    measured: str = ""
    claims: tuple[claim_rules.Claim, ...] = ()
    quantities: tuple[str, ...] = ()


def parse(name: str, data: Json) -> Recipe:
    """Return the recipe that a TOML document describes.

    Raises:
      ValueError: If it is not in the format.
    """
    where = f"{name}.toml"
    document = checks.parse(_Document, where, data, closed=True)
    metric, kind = document.metric, document.kind
    if kind not in KINDS:
        fail(f"{where}, kind", f"be one of {', '.join(KINDS)}", kind)
    if kind == "runs" and metric.name not in METRICS:
        fail(f"{where}, metric, name", f"be one of {', '.join(METRICS)}", metric.name)
    if kind == "runs" and metric.higher_is_better is None:
        fail(f"{where}, metric", "say whether higher_is_better", data["metric"])
    if (kind == "runs") == (document.source is not None):
        fail(where, "have a source unless it consists of runs", document.source)
    is_grid = document.axes is not None
    if is_grid == (document.rows is not None) or is_grid != (document.numbers is not None):
        fail(where, "have either rows or axes with numbers", sorted(data))
    rows = tuple(_combinations(where, document) if is_grid else _rows(where, document))
    ids = [row.id for row in rows]
    if not rows or len(set(ids)) < len(ids) or max(map(len, ids)) > LONGEST_ID:
        fail(where, f"have rows, each with an id of its own, at most {LONGEST_ID} long", ids)
    if kind != "runs" and any(row.reduced for row in rows):
        fail(where, "have no reduced settings unless it consists of runs", kind)
    for claim in document.claims:
        claim_rules.check(f"{where}, claim {claim.id}", claim, kind, ids)
    source, notes = document.source or "", document.notes
    title, paper = document.title, document.paper
    more = document.claims, document.measured, "", document.quantities
    unknown = [each for each in document.quantities if each not in QUANTITIES]
    if unknown:
        fail(f"{where}, quantities", f"be some of {', '.join(QUANTITIES)}", unknown)
    return Recipe(name, title, paper, kind, metric, rows, notes, source, *more)


def _reduced(where: str, *parts: Fields) -> dict[str, Reduced]:
    """Return the settings of `--reduced`; later parts replace those of earlier ones."""
    merged = {name: value for part in parts for name, value in part.items()}
    return {n: checks.parse(Reduced, f"{where}, reduced, {n}", v, True) for n, v in merged.items()}


def _rows(where: str, document: _Document) -> Iterator[Row]:
    """Yield the rows that are written out."""
    for number, row in enumerate(document.rows or ()):
        place = f"{where}, rows[{number}]"
        if not _ROW_ID.fullmatch(row.id):
            fail(place, "have an id of small letters, digits, '.', '_' and '-'", row.id)
        if row.paper is None:
            fail(place, "have paper", row.id)
        settings = {**document.settings, **row.settings}
        paper = _published(place, row.paper, row.targets, settings)
        reduced = _reduced(place, document.reduced, row.reduced)
        yield Row(row.id, row.label, row.columns, "", row.stands_in, paper, settings, reduced)


def _combinations(where: str, document: _Document) -> Iterator[Row]:
    """Yield the rows of a grid: the combinations of axes that `numbers` has."""
    axes, numbers = document.axes or (), document.numbers or {}
    count = math.prod(len(axis.values) for axis in axes)
    if not axes or not 0 < count <= MOST_ROWS:
        fail(f"{where}, axes", f"have from 1 to {MOST_ROWS} combinations of values", count)
    for value in itertools.chain(*(axis.values for axis in axes)):
        if not _PART_ID.fullmatch(value.id):
            fail(f"{where}, axes", "have ids of small letters, digits, '.' and '_'", value.id)
        if value.paper is not None:
            fail(f"{where}, axes", "have no key 'paper': see numbers", value.paper)
    used = set()
    along = axes[-1].values
    for outer in itertools.product(*(axis.values for axis in axes[:-1])):
        key = "-".join(value.id for value in outer)
        if key not in numbers:
            continue
        used.add(key)
        place, cells = f"{where}, numbers.{key}", numbers[key]
        if not isinstance(cells, list) or len(cells) != len(along):
            fail(place, f"be a list of {len(along)}", cells)
        for last, cell in zip(along, cells):
            if cell != NO_RUN:
                yield _combination(place, document, (*outer, last), cell)
    if used < set(numbers):
        fail(f"{where}, numbers", "be of combinations of the axes", sorted({*numbers} - used))


def _combination(where: str, document: _Document, values: Sequence[_Value], cell: Json) -> Row:
    ids = [value.id for value in values]
    columns: dict[str, str] = {}
    targets: tuple[float, ...] = ()
    settings = dict(document.settings)
    for axis, value in zip(document.axes or (), values):
        columns |= {axis.column: value.label, **value.columns}
        settings |= value.settings
        targets = value.targets or targets
    combinations = [each for each in document.combinations if {*each.ids} <= {*ids}]
    for combination in combinations:
        settings |= combination.settings
    parts = [value.reduced for value in values] + [each.reduced for each in combinations]
    label = ", ".join(value.label for value in values)
    paper = _published(where, cell, targets, settings)
    stands_in = any(value.stands_in for value in values)
    reduced = _reduced(where, document.reduced, *parts)
    return Row("-".join(ids), label, columns, "", stands_in, paper, settings, reduced)


def _published(where: str, cell: Json, targets: Sequence[float], settings: Fields) -> Published:
    """Return the number of a cell, or of a list of cells, one for each target.

    The number that is compared is then that of the setting `target_accuracy`.
    """
    if not all(0 < target <= 1 for target in targets):
        fail(where, "have targets in (0, 1]", targets)
    if not targets:
        return _cell(where, cell)
    if not isinstance(cell, list) or len(cell) != len(targets):
        fail(where, f"have a number for each of the targets {list(targets)}", cell)
    own = settings.get("target_accuracy", 0.0)
    if own not in targets:
        fail(where, f"have a target_accuracy of {list(targets)}", own)
    values = {target: _cell(where, each).value for target, each in zip(targets, cell)}
    text = ", ".join(f"{100 * target:g} %: {each}" for target, each in zip(targets, cell))
    pairs = tuple(Target(target, value) for target, value in values.items())
    return Published(values[own], None, text, pairs)


def _cell(where: str, cell: Json) -> Published:
    """Read `80.45 ± 0.2`, `*` (not reached), other words, or {value, spread, text}."""
    if isinstance(cell, dict):
        published = checks.parse(Published, where, cell, closed=True)
        return published if published.text else fail(where, "have text", sorted(cell))
    if not isinstance(cell, str):
        fail(where, "have its number as text", cell)
    match = _NUMBER.fullmatch(cell)
    if match is None:
        return Published(text=cell)
    return Published(float(match[1]), float(match[2]) if match[2] else None, cell)
