"""Sections of a report: a recipe (a table of a paper), or single runs that can be compared."""

from __future__ import annotations

import dataclasses
import math
import os
from collections.abc import Mapping
from typing import Any, Optional

from tff_partial.report import commands, runs
from tff_partial.report.runs import Paper, ReportError, Row, Run

RECIPE = "recipe.json"
TO_TARGET = "_to_target"  # how names of metrics end that have a target
KINDS = {"runs": "trained", "exact": "computed exactly", "analysis": "analysis of trained models"}


@dataclasses.dataclass(frozen=True)
class Metric:
    """What a recipe's table compares.

    Attributes:
      name: A key of summary.json.
      label: Of the column.
      unit: Of the paper's figures; ours are multiplied by 100 where it is '%'.
      higher_is_better: Decides how a difference is shown; None where neither is.
    """

    name: str
    label: str
    unit: str
    higher_is_better: Optional[bool]

    @property
    def factor(self) -> float:
        return 100.0 if self.unit == "%" else 1.0


@dataclasses.dataclass(frozen=True)
class Section:
    """A part of the report, with its own tables and figure.

    Attributes:
      title: Its heading.
      rows: Of its tables.
      paper: The citation; empty for single runs.
      recipe: Its name; empty for single runs.
      kind: One of KINDS.
      scale, scale_rule: What part of the paper's setting it was run at, and how it was reduced.
      metric: What is compared with the paper; None for single runs.
      given: Flags beside the scale, which replace what it makes of the paper's settings.
      notes: Sentences below the tables.
      remarks: Paragraphs below the tables, on what came out.
    """

    title: str
    rows: tuple[Row, ...]
    paper: str = ""
    recipe: str = ""
    kind: str = "runs"
    scale: Optional[float] = None
    scale_rule: str = ""
    metric: Optional[Metric] = None
    given: Mapping[str, str] = dataclasses.field(default_factory=dict)
    notes: tuple[str, ...] = ()
    remarks: tuple[str, ...] = ()

    @property
    def name(self) -> str:
        return f"{self.recipe}: {self.title}" if self.recipe else self.title

    @property
    def is_papers_setting(self) -> bool:
        """Whether nothing was shrunk or changed; what is computed exactly never is."""
        return self.scale is None or (self.scale == 1 and not self.given)

    @property
    def scale_text(self) -> str:
        """How far it is the paper's setting, for captions; empty where there is no scale."""
        if self.scale is None:
            return ""
        scale = "the paper's setting" if self.scale == 1 else f"scale {self.scale:g}"
        return f"{scale} with changes" if self.given else scale

    @property
    def facts(self) -> tuple[str, ...]:
        """What stands below the heading."""
        found = (
            self.paper,
            KINDS[self.kind] if self.kind != "runs" else "",
            *self._setting(),
            f"data: {'; '.join(self.data)}" if self.data else "",
        )
        return tuple(f"{fact[:1].upper()}{fact[1:]}." for fact in found if fact)

    def _setting(self) -> tuple[str, ...]:
        """The scale and what was changed beside it, a sentence each."""
        if self.scale is None:
            return ()
        flags = " ".join(f"--{name}={value}" for name, value in self.given.items())
        if self.scale == 1:
            # Flags may shrink as much as a scale does: no "scale 1" beside them.
            changed = f", but for all rows: {flags}"
            return (f"the paper's setting{changed if flags else ' (scale 1)'}",)
        rule = f" ({self.scale_rule})" if self.scale_rule else ""
        scale = f"scale {self.scale:g} of the paper's setting{rule}"
        return (scale, f"changed beside the scale, for all rows: {flags}" if flags else "")

    @property
    def data(self) -> tuple[str, ...]:
        """What the data were, those that are not the real set marked."""
        found = {(run.data, run.is_real): None for row in self.rows for run in row.runs if run.data}
        return tuple(data if is_real else f"{data}: {runs.NOT_REAL}" for data, is_real in found)

    @property
    def is_real(self) -> bool:
        return all(row.is_real for row in self.rows)


def read(root: str, folder: str) -> Section:
    """The recipe whose recipe.json is in a folder below the results folder `root`.

    Raises:
      ReportError: If recipe.json or a file of its runs is not as it should be.
    """
    path = os.path.join(folder, RECIPE)
    content = runs.read_json(path)
    try:
        given = _object(content, "given", {})
        other_task = "task" in given
        rows = tuple(_row(root, folder, row, other_task) for row in _list(content, "rows"))
        metric, kind = _metric(_object(content, "metric")), _kind(content)
        if not metric.name.endswith(TO_TARGET):
            rows = tuple(map(_without_leaked_targets, rows))
        return Section(
            title=_text(content, "title"),
            rows=rows,
            paper=_text(content, "paper"),
            recipe=_name(content),
            kind=kind,
            # What is computed exactly has no scale.
            scale=None if kind == "exact" else _number(content, "scale"),
            scale_rule=_text(content, "scale_rule", ""),
            metric=metric,
            given={str(name): commands.text_of(value) for name, value in given.items()},
            notes=tuple(str(note) for note in _list(content, "notes", [])),
        )
    except _Malformed as error:
        raise ReportError(f"recipe.json must have {error} Received: {path}") from error


class _Malformed(ValueError):
    """What recipe.json should have."""


def _name(content: Mapping[str, Any]) -> str:
    """Such as `embracing/table3`; the remarks of a recipe are a file of this name."""
    name = _text(content, "recipe")
    if any(part in ("", ".", "..") for part in name.split("/")):
        raise _Malformed(f"a name such as paper/table1 as 'recipe', not {name!r}.")
    return name


def _kind(content: Mapping[str, Any]) -> str:
    kind = _text(content, "kind")
    if kind not in KINDS:
        raise _Malformed(f"a kind of {', '.join(KINDS)}.")
    return kind


def _metric(content: Mapping[str, Any]) -> Metric:
    higher = content.get("higher_is_better")
    return Metric(
        _text(content, "name"),
        _text(content, "label"),
        _text(content, "unit", ""),
        None if higher is None else bool(higher),
    )


def _row(root: str, folder: str, content: Any, other_task: bool) -> Row:
    if not isinstance(content, dict):
        raise _Malformed("objects as rows.")
    name = _text(content, "id")
    if name in ("", ".", "..") or os.path.basename(name) != name:
        raise _Malformed(f"ids of rows that are names of folders, not {name!r}.")
    columns = _object(content, "columns", {})
    found = _runs(root, os.path.join(folder, name))
    stands_in = bool(content.get("stands_in"))
    found = tuple(_marked(run, stands_in, other_task) for run in found)
    command = commands.clean(_text(content, "command", ""), [root])
    return Row(
        _text(content, "label"),
        {str(key): str(value) for key, value in columns.items()},
        # Without --seed a command repeats seed 0, and so it does where nothing was run.
        commands.with_seeds(command, found) if any(run.seed for run in found) else command,
        found,
        _paper(_object(content, "paper", {})),
    )


def _without_leaked_targets(row: Row) -> Row:
    """Without targets that nobody asked for: older runs have that of the task's demo."""
    if "--target_accuracy=" in row.command:
        return row
    return dataclasses.replace(row, runs=tuple(map(_without_demo_target, row.runs)))


def _without_demo_target(run: Run) -> Run:
    if run.target is None or run.settings.get("preset") == "paper":
        return run
    settings = {**run.settings, "target_accuracy": None}
    return dataclasses.replace(run, config={**run.config, "settings": settings})


def _paper(content: Mapping[str, Any]) -> Paper:
    targets = []
    for pair in _list(content, "targets", []):
        target = _number(pair, "target") if isinstance(pair, dict) else None
        if target is None:
            raise _Malformed("targets with an accuracy each.")
        targets.append((target, _number(pair, "value")))
    return Paper(
        _number(content, "value"),
        _number(content, "spread"),
        _text(content, "text", ""),
        tuple(targets),
    )


def _marked(run: Run, stands_in: bool, other_task: bool) -> Run:
    """Whether its data stand in for the paper's: the row says so, or another task was given."""
    # The paper's preset is used only with the paper's task.
    is_other = other_task and run.settings.get("preset") != "paper"
    return dataclasses.replace(run, stands_in=stands_in or is_other)


def _runs(root: str, folder: str) -> tuple[Run, ...]:
    """The runs of a row, a folder `seed-<k>` each."""
    if not os.path.isdir(folder):
        return ()
    names = [name for name in os.listdir(folder) if name.startswith("seed-")]
    paths = [os.path.join(folder, name) for name in sorted(names, key=lambda n: (len(n), n))]
    paths = [path for path in paths if os.path.isdir(path)]
    found = [runs.read_run(path, commands.shown_folder(root, path)) for path in paths]
    return tuple(run for run in found if run.config or run.summary)


_NONE: Any = object()


def _get(content: Mapping[str, Any], key: str, kind: Any, words: str, default: Any) -> Any:
    value = content.get(key)
    if value is None and default is not _NONE:
        return default
    if not isinstance(value, kind) or isinstance(value, bool):
        raise _Malformed(f"{words} as {key!r}.")
    return value


def _text(content: Mapping[str, Any], key: str, default: Any = _NONE) -> str:
    return _get(content, key, str, "a text", default)


def _list(content: Mapping[str, Any], key: str, default: Any = _NONE) -> list[Any]:
    return _get(content, key, list, "a list", default)


def _object(content: Mapping[str, Any], key: str, default: Any = _NONE) -> dict[str, Any]:
    return _get(content, key, dict, "an object", default)


def _number(content: Mapping[str, Any], key: str) -> Optional[float]:
    number = _get(content, key, (int, float), "a number", None)
    if number is not None and not math.isfinite(number):
        raise _Malformed(f"a finite number as {key!r}.")
    return number
