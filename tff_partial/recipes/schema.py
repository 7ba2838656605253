"""The format of recipes: what a TOML document must look like, and the recipe that it describes.

Rows are written out under `rows`, or are the combinations of `axes` for which `numbers` has a
figure, the last axis being within its lists. Settings of `combinations` apply to rows with all of
their ids. docs/recipes.md shows it by example.
"""

from __future__ import annotations

import dataclasses
import itertools
import math
import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, NoReturn, Optional

KINDS = ("runs", "exact", "analysis")
# Metrics of runs; of exact tables and analyses the name is free.
METRICS = (
    "best_test_accuracy",
    "final_test_accuracy",
    "rounds_to_target",
    "simulated_seconds_to_target",
)
NO_RUN = "-"  # instead of a number: the paper has no such run
MOST_ROWS, LONGEST_ID = 1000, 200  # ids are names of folders
_ROW_ID = re.compile(r"[a-z0-9][a-z0-9._-]*")
_PART_ID = re.compile(r"[a-z0-9][a-z0-9._]*")
_NUMBER = re.compile(r"(\d+(?:\.\d+)?)(?: ± (\d+(?:\.\d+)?))?")


_TABLE, _LIST = dict, list
_RECIPE = {
    "title": str,
    "paper": str,
    "kind": str,
    "metric": _TABLE,
    "notes": _LIST,
    "source": str,
    "settings": _TABLE,
    "rows": _LIST,
    "axes": _LIST,
    "combinations": _LIST,
    "numbers": _TABLE,
}
_METRIC = {"name": str, "label": str, "unit": str, "higher_is_better": bool}
_AXIS = {"column": str, "values": _LIST}
_VALUE = {
    "id": str,
    "label": str,
    "columns": _TABLE,
    "settings": _TABLE,
    "targets": _LIST,
    "stands_in": bool,
}
_ROW = {**_VALUE, "paper": (str, _TABLE, _LIST)}
_COMBINATION = {"ids": _LIST, "settings": _TABLE}
_PUBLISHED = {"value": (int, float), "spread": (int, float), "text": str}


@dataclasses.dataclass(frozen=True)
class Metric:
    """What a row's numbers are; neither is better in exact tables."""

    name: str
    label: str
    unit: str
    higher_is_better: Optional[bool] = None


@dataclasses.dataclass(frozen=True)
class Published:
    """What the paper prints for a row, in the metric's unit.

    Attributes:
      value: The number, or None where there is none.
      spread: What follows the ±, or None.
      text: As it is printed, or where it stands.
      targets: For metrics `..._to_target`, pairs (accuracy, number or None if it is not reached).
    """

    value: Optional[float] = None
    spread: Optional[float] = None
    text: str = ""
    targets: tuple[tuple[float, Optional[float]], ...] = ()


@dataclasses.dataclass(frozen=True)
class Row:
    """A run, for each seed: what is varied, its flags at the paper's scale, the paper's number.

    Its data stand in for the paper's where `stands_in` is True, even if they are real.
    """

    id: str
    label: str
    columns: Mapping[str, str]
    settings: Mapping[str, Any]
    paper: Published
    stands_in: bool = False


@dataclasses.dataclass(frozen=True)
class Recipe:
    """A table or figure.

    Attributes:
      name: Such as `embracing/table3`.
      title: What the table shows.
      paper: The citation.
      kind: `runs`; `exact` (`source` is a key of `exact_tables.TABLES`, nothing is trained); or
        `analysis` (`source` is one of `recipe_plan.ANALYSES`, which is run with the rows' settings
        as its flags).
      metric: What the numbers are.
      rows: The rows, in the paper's order.
      notes: What the paper leaves open and how it is read here.
      source: See `kind`.
    """

    name: str
    title: str
    paper: str
    kind: str
    metric: Metric
    rows: tuple[Row, ...]
    notes: tuple[str, ...] = ()
    source: str = ""


def parse(name: str, data: Mapping[str, Any]) -> Recipe:
    """The recipe that `data`, a TOML document, describes.

    Raises:
      ValueError: If it does not keep to the format.
    """
    where = f"{name}.toml"
    _check(where, data, _RECIPE, required=("title", "paper", "kind", "metric"))
    kind = _one_of(where, "kind", data["kind"], KINDS)
    _check(f"{where}, metric", data["metric"], _METRIC, required=("name", "label", "unit"))
    metric = Metric(**data["metric"])
    if kind == "runs":
        _one_of(f"{where}, metric", "name", metric.name, METRICS)
        if metric.higher_is_better is None:
            _fail(f"{where}, metric", "say whether higher_is_better", data["metric"])
    if (kind == "runs") == ("source" in data):
        _fail(where, "have a source unless it consists of runs", data.get("source"))
    if ("rows" in data) == ("axes" in data) or ("axes" in data) != ("numbers" in data):
        _fail(where, "have either rows or axes with numbers", sorted(data))
    _check_texts(f"{where}, notes", data.get("notes", []))
    rows = tuple(_rows(where, data) if "rows" in data else _combinations(where, data))
    ids = [row.id for row in rows]
    if not rows or len(set(ids)) < len(ids) or max(map(len, ids)) > LONGEST_ID:
        _fail(where, f"have rows, each with an id of its own, at most {LONGEST_ID} long", ids)
    return Recipe(
        name,
        data["title"],
        data["paper"],
        kind,
        metric,
        rows,
        tuple(data.get("notes", ())),
        data.get("source", ""),
    )


def _rows(where: str, data: Mapping[str, Any]) -> Iterator[Row]:
    """Rows that are written out."""
    for number, row in enumerate(data["rows"]):
        place = f"{where}, rows[{number}]"
        _check(place, row, _ROW, required=("id", "label", "paper"))
        if not _ROW_ID.fullmatch(row["id"]):
            _fail(place, "have an id of small letters, digits, '.', '_' and '-'", row["id"])
        settings = {**data.get("settings", {}), **row.get("settings", {})}
        paper = _published(place, row["paper"], row.get("targets", []), settings)
        columns = _texts(row.get("columns", {}))
        stands_in = row.get("stands_in", False)
        yield Row(row["id"], row["label"], columns, settings, paper, stands_in)


def _combinations(where: str, data: Mapping[str, Any]) -> Iterator[Row]:
    """Rows from axes: the combinations that `numbers` has, the last axis being within a list."""
    axes = [_axis(f"{where}, axes[{i}]", axis) for i, axis in enumerate(data["axes"])]
    count = math.prod(len(axis["values"]) for axis in axes)
    if not axes or not 0 < count <= MOST_ROWS:
        _fail(f"{where}, axes", f"have from 1 to {MOST_ROWS} combinations of values", count)
    for combination in data.get("combinations", []):
        _check(f"{where}, combinations", combination, _COMBINATION, tuple(_COMBINATION))
        _check_texts(f"{where}, combinations, ids", combination["ids"])
    numbers, used = data["numbers"], set()
    for values in itertools.product(*(axis["values"] for axis in axes)):
        *outer, last = values
        key = "-".join(value["id"] for value in outer)
        if key not in numbers:
            continue
        used.add(key)
        place, cells = f"{where}, numbers.{key}", numbers[key]
        if not isinstance(cells, list) or len(cells) != len(axes[-1]["values"]):
            _fail(place, f"be a list of {len(axes[-1]['values'])}", cells)
        cell = cells[axes[-1]["values"].index(last)]
        if cell != NO_RUN:
            yield _combination(place, data, axes, values, cell)
    if used < set(numbers):
        _fail(f"{where}, numbers", "be of combinations of the axes", sorted({*numbers} - used))


def _axis(where: str, axis: Any) -> Mapping[str, Any]:
    _check(where, axis, _AXIS, required=("column", "values"))
    for value in axis["values"]:
        _check(f"{where}, values", value, _VALUE, required=("id", "label"))
        if not _PART_ID.fullmatch(value["id"]):
            _fail(where, "have ids of small letters, digits, '.' and '_'", value["id"])
    return axis


def _combination(
    where: str, data: Mapping[str, Any], axes: Sequence[Any], values: Sequence[Any], cell: Any
) -> Row:
    ids = [value["id"] for value in values]
    columns: dict[str, str] = {}
    targets: Sequence[float] = ()
    settings = dict(data.get("settings", {}))
    for axis, value in zip(axes, values):
        columns |= {axis["column"]: value["label"], **_texts(value.get("columns", {}))}
        settings |= value.get("settings", {})
        targets = value.get("targets", targets)
    for combination in data.get("combinations", []):
        if set(combination["ids"]) <= set(ids):
            settings |= combination["settings"]
    label = ", ".join(value["label"] for value in values)
    paper = _published(where, cell, targets, settings)
    stands_in = any(value.get("stands_in", False) for value in values)
    return Row("-".join(ids), label, columns, settings, paper, stands_in)


def _published(
    where: str, cell: Any, targets: Sequence[float], settings: Mapping[str, Any]
) -> Published:
    """What stands for a row: a cell, or one for each target; `target_accuracy` is the row's own."""
    if not all(isinstance(target, (int, float)) and 0 < target <= 1 for target in targets):
        _fail(where, "have targets in (0, 1]", targets)
    if not targets:
        return _cell(where, cell)
    if not isinstance(cell, list) or len(cell) != len(targets):
        _fail(where, f"have a number for each of the targets {list(targets)}", cell)
    own = settings.get("target_accuracy", 0.0)
    if own not in targets:
        _fail(where, f"have a target_accuracy of {list(targets)}", own)
    found = {target: _cell(where, each).value for target, each in zip(targets, cell)}
    pairs = [f"{100 * target:g} %: {each}" for target, each in zip(targets, cell)]
    return Published(found[own], None, ", ".join(pairs), tuple(found.items()))


def _cell(where: str, cell: Any) -> Published:
    """`80.45 ± 0.2`, `*` (not reached), other words, or {value, spread, text}."""
    if isinstance(cell, dict):
        _check(where, cell, _PUBLISHED, required=("text",))
        return Published(cell.get("value"), cell.get("spread"), cell["text"])
    if not isinstance(cell, str):
        _fail(where, "have its number as text", cell)
    match = _NUMBER.fullmatch(cell)
    if match is None:
        return Published(text=cell)
    return Published(float(match[1]), float(match[2]) if match[2] else None, cell)


def _texts(columns: Mapping[str, Any]) -> dict[str, str]:
    return {name: str(value) for name, value in columns.items()}


def _check(where: str, data: Any, kinds: Mapping[str, Any], required: Sequence[str]) -> None:
    if not isinstance(data, dict):
        _fail(where, "be a table", data)
    missing = [name for name in required if name not in data]
    if missing:
        _fail(where, f"have {', '.join(missing)}", sorted(data))
    for name, value in data.items():
        if name not in kinds:
            _fail(where, f"have no keys but {', '.join(kinds)}", name)
        if not isinstance(value, kinds[name]):
            expected = kinds[name] if isinstance(kinds[name], tuple) else (kinds[name],)
            _fail(f"{where}, {name}", f"be {' or '.join(k.__name__ for k in expected)}", value)


def _check_texts(where: str, values: Sequence[Any]) -> None:
    if not all(isinstance(value, str) for value in values):
        _fail(where, "be texts", values)


def _one_of(where: str, name: str, value: str, known: Sequence[str]) -> str:
    if value not in known:
        _fail(f"{where}, {name}", f"be one of {', '.join(known)}", value)
    return value


def _fail(where: str, what: str, received: Any) -> NoReturn:
    raise ValueError(f"{where} must {what}. Received: {received!r}")
