"""Runs as they lie in their folders, and rows: runs that differ in nothing but their seed."""

from __future__ import annotations

import dataclasses
import math
import os
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple, Optional

from tff_partial import capacities
from tff_partial.results import folder as results
from tff_partial.results import statistics

NOT_REAL = "not the real set"
# Settings that older runs do not have yet, as they were then.
BEFORE = {"weight_decay_on": "kernels"}


class ReportError(ValueError):
    """Input that no report can be made of."""


@dataclasses.dataclass(frozen=True)
class Run:
    """One seed.

    Attributes:
      folder: As it is shown, without what is above the results folder.
      config: config.json; empty for a row that was computed without training.
      rows: Of metrics.csv.
      summary: summary.json, with what metrics.csv gives at present in the place of older figures.
      similarity: The rows of similarity.csv, of an analysis.
      stands_in: Whether the data are others than those of the paper's table.
    """

    folder: str
    config: Mapping[str, Any]
    rows: Sequence[Mapping[str, Any]]
    summary: Mapping[str, Any]
    similarity: Sequence[Mapping[str, str]] = ()
    stands_in: bool = False

    @property
    def settings(self) -> Mapping[str, Any]:
        given = self.config.get("settings", {})
        return {**BEFORE, **given} if given else {}

    @property
    def seed(self) -> int:
        return self.settings.get("seed", 0)

    @property
    def data(self) -> str:
        """What the data are; empty where nothing says so."""
        data = str(self.settings.get("data") or self.summary.get("data") or "")
        return f"{data}, in place of the paper's" if data and self.stands_in else data

    @property
    def is_real(self) -> bool:
        """Whether the data are the set that they should be; runs of old say it in words only."""
        if self.stands_in:
            return False
        said = self.config.get("execution", {}).get("data_is_real")
        return self.data.startswith(("real:", "generated:")) if said is None else bool(said)

    @property
    def planned(self) -> int:
        return self.settings.get("rounds", 0)

    @property
    def is_finished(self) -> bool:
        done = bool(self.similarity) or len(self.rows) >= self.planned
        return done and self.diverged_at is None

    @property
    def diverged_at(self) -> Optional[int]:
        """The round in which the run diverged, its last; None if it did not."""
        found = results.diverged_at(self.summary)
        return found if found is not None and len(self.rows) <= found else None

    @property
    def target(self) -> Optional[float]:
        return self.settings.get("target_accuracy")

    def cost_to_target(self) -> Optional[statistics.Cost]:
        return statistics.cost_to(self.rows, self.target)


class Paper(NamedTuple):
    """A paper's figure, in the unit in which the paper prints it.

    Where a table has figures for several target accuracies, `targets` has a pair (target, figure)
    for each, None where the paper did not reach it.
    """

    value: Optional[float] = None
    spread: Optional[float] = None
    text: str = ""
    targets: tuple[tuple[float, Optional[float]], ...] = ()


NO_PAPER = Paper()


@dataclasses.dataclass(frozen=True)
class Row:
    """A line of a table: runs with equal settings, a seed each.

    Attributes:
      label: What it is called in tables and legends.
      columns: What is varied -> its value here.
      command: Repeats it; empty where nothing is known.
      runs: One of each seed.
      paper: What the paper has in this place.
      short: The label in a table that has the columns beside it; the label itself if empty.
    """

    label: str
    columns: Mapping[str, str]
    command: str
    runs: tuple[Run, ...]
    paper: Paper = NO_PAPER
    short: str = ""

    @property
    def finished(self) -> tuple[Run, ...]:
        return tuple(run for run in self.runs if run.is_finished)

    @property
    def counted(self) -> tuple[Run, ...]:
        """The finished runs; where there are none, those under way."""
        return self.finished or self.runs

    @property
    def is_real(self) -> bool:
        return all(run.is_real for run in self.runs if run.data)

    def spread_of(self, name: str) -> Optional[statistics.Spread]:
        """Of a figure of the summary, over the runs that count and have it."""
        values = [run.summary.get(name) for run in self.counted]
        return statistics.spread(v for v in values if isinstance(v, (int, float)))

    def spread_to(self, target: float, name: str) -> Optional[statistics.Spread]:
        """Of what a target took, a field of `Cost`, over the runs that count and reached it."""
        costs = [statistics.cost_to(run.rows, target) for run in self.counted]
        values = [getattr(cost, name) for cost in costs if cost is not None]
        return statistics.spread(value for value in values if value is not None)


def read_run(path: str, shown: str) -> Run:
    """The run in a folder.

    Args:
      path: The folder.
      shown: Its name in the report.

    Raises:
      ReportError: If a file of it cannot be read.
    """
    config = read_json(os.path.join(path, "config.json"))
    summary = read_json(os.path.join(path, "summary.json"))
    try:
        _check(config.get("settings", {}), config)
        rows = results.read_metrics(path)
        current = _summarize(config.get("settings", {}), rows) if rows else {}
        similarity = _read_similarity(path)
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise ReportError(
            f"config.json and metrics.csv must be those of a run. Received: {shown} with "
            f"{type(error).__name__}: {error}"
        ) from error
    # A run that went on after it was stopped has the summary of that time.
    return Run(shown, config, rows, {**summary, **current}, similarity)


def _read_similarity(path: str) -> list[dict[str, str]]:
    try:
        rows = results.read_table(os.path.join(path, "similarity.csv"))
    except FileNotFoundError:
        return []
    for row in rows:
        _ = row["scheme"], row["name"], *(float(row[c]) for c in ("steps", "maximum", "mean"))
    return rows


# Settings that the report works with; others are shown as they are.
_KINDS: Mapping[str, Any] = {
    **dict.fromkeys(("task", "algo", "data", "tiers"), str),
    **dict.fromkeys(("rounds", "seed"), int),
}
_KINDS_OR_NONE: Mapping[str, Any] = {
    **dict.fromkeys(("preset", "source", "capacities"), str),
    "target_accuracy": (int, float),
}


def _check(settings: Any, config: Mapping[str, Any]) -> None:
    for part in ("settings", "execution", "versions"):
        if not isinstance(config.get(part, {}), dict):
            raise ValueError(f"{part} must be an object")
    missing = [name for name in ("task", "algo", "data") if settings and name not in settings]
    if missing:
        raise ValueError(f"settings must have {missing}")
    for name, kind in {**_KINDS, **_KINDS_OR_NONE}.items():
        is_none = settings.get(name) is None and (name not in settings or name in _KINDS_OR_NONE)
        if not is_none and not isinstance(settings[name], kind):
            raise ValueError(f"{name} must not be of type {type(settings[name]).__name__}")
    if not math.isfinite(settings.get("target_accuracy") or 0):
        raise ValueError(f"target_accuracy must not be {settings['target_accuracy']}")
    if settings.get("capacities"):
        capacities.parse(settings["capacities"])


def _summarize(settings: Mapping[str, Any], rows: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    found = results.summarize(settings, settings["data"], rows)
    cost = statistics.cost_to(rows, settings.get("target_accuracy"))
    if cost is not None:
        found["simulated_seconds_to_target"] = cost.simulated_seconds
        found["bytes_to_target"] = cost.bytes
    return {name: value for name, value in found.items() if value is not None}


def read_json(path: str) -> dict[str, Any]:
    """An object from a file; empty if there is no such file.

    Raises:
      ReportError: If it is no JSON object.
    """
    try:
        return results.read_json(path)
    except FileNotFoundError:
        return {}
    except results.ResultsError as error:
        raise ReportError(str(error)) from error


def one_of_each_seed(runs: Sequence[Run]) -> tuple[Run, ...]:
    """The furthest run of each seed: a run that was repeated counts once."""
    furthest: dict[int, Run] = {}
    for run in runs:
        if run.seed not in furthest or len(run.rows) > len(furthest[run.seed].rows):
            furthest[run.seed] = run
    return tuple(furthest[seed] for seed in sorted(furthest))
