"""Runs, read from their folders, and rows: runs that differ in nothing but their seed."""

from __future__ import annotations

import dataclasses
import os
from collections.abc import Mapping, Sequence
from typing import Optional

from tff_partial import tiers
from tff_partial.results import checks, metrics, neurons, text_files
from tff_partial.results import summary as summaries
from tff_partial.results.checks import Json
from tff_partial.results.schema import (
    OLD_SETTINGS,
    Config,
    Fields,
    KnownSettings,
    MetricsRow,
    Published,
)

NOT_REAL = "not the real set"


class ReportError(ValueError):
    """Input that no report can be made of."""


@dataclasses.dataclass(frozen=True)
class Run:
    """One seed.

    Attributes:
      folder: Its name in the report, from the results folder on.
      config: config.json; empty for a row that was computed without training.
      rows: The rows of metrics.csv.
      summary: summary.json, updated with what metrics.csv gives now.
      similarity: The rows of similarity.csv, of an analysis.
      activations, examples: The rows of activations.csv and examples.csv, likewise.
      stands_in: Whether the data are others than those of the paper's table.
    """

    folder: str
    config: Config
    rows: Sequence[MetricsRow]
    summary: Fields
    similarity: Sequence[Mapping[str, str]] = ()
    activations: neurons.Rows = ()
    examples: neurons.Rows = ()
    stands_in: bool = False

    @property
    def settings(self) -> Fields:
        settings = self.config.settings
        old = {k: v for k, v in OLD_SETTINGS.items() if settings and k not in settings}
        return {**settings, **old}

    @property
    def seed(self) -> int:
        return self.settings.get("seed") or 0

    @property
    def data(self) -> str:
        """A description of the data; empty if there is none."""
        data = str(self.settings.get("data") or self.summary.get("data") or "")
        return f"{data}, in place of the paper's" if data and self.stands_in else data

    @property
    def is_real(self) -> bool:
        """Whether the data are those that the task names; old runs say it in words only."""
        if self.stands_in:
            return False
        is_real = self.config.execution.get("data_is_real")
        return self.data.startswith(("real:", "generated:")) if is_real is None else bool(is_real)

    @property
    def tier_costs(self) -> dict[str, dict[str, float]]:
        """What a round costs a client of each tier, by its label; older runs do not say."""
        known = self.config.execution.get("tier_costs")
        of_tiers = known.items() if isinstance(known, dict) else ()
        return {
            label: {name: v for name, v in each.items() if isinstance(v, (int, float))}
            for label, each in of_tiers
            if isinstance(each, dict)
        }

    @property
    def planned(self) -> int:
        return self.settings.get("rounds") or 0

    @property
    def is_finished(self) -> bool:
        done = bool(self.similarity) or len(self.rows) >= self.planned
        return done and self.diverged_at is None

    @property
    def diverged_at(self) -> Optional[int]:
        """The round in which the run diverged, its last; None if it did not."""
        round_num = summaries.diverged_at(self.summary)
        return round_num if round_num is not None and len(self.rows) <= round_num else None

    @property
    def target(self) -> Optional[float]:
        return self.settings.get("target_accuracy")


@dataclasses.dataclass(frozen=True)
class Row:
    """A line of a table: runs with equal settings, a seed each.

    Attributes:
      label: What tables and legends call it.
      columns: What is varied -> its value here.
      command: Repeats it; empty if it is not known.
      runs: One of each seed.
      paper: What the paper prints in this place.
      short: The label in a table that has the columns too; the label itself if empty.
      id: Its name in the recipe; empty for single runs.
    """

    label: str
    columns: Mapping[str, str]
    command: str
    runs: tuple[Run, ...]
    paper: Published
    short: str = ""
    id: str = ""

    @property
    def finished(self) -> tuple[Run, ...]:
        return tuple(run for run in self.runs if run.is_finished)

    @property
    def counted(self) -> tuple[Run, ...]:
        """The finished runs; if there are none, those under way."""
        return self.finished or self.runs

    @property
    def furthest(self) -> Run:
        return max(self.runs, key=lambda run: len(run.rows))

    @property
    def is_real(self) -> bool:
        return all(run.is_real for run in self.runs if run.data)

    @property
    def sample_note(self) -> str:
        """What to add to rounds to a target if they were tested on a sample; else empty."""
        sizes = {metrics.sample_size(run.rows) for run in self.counted} - {None}
        return "".join(f" (on {size:,} test examples)" for size in sizes)

    def spread_of(self, name: str) -> Optional[metrics.Spread]:
        """Return the spread of a figure of summary.json over the runs that count."""
        values = [run.summary.get(name) for run in self.counted]
        return metrics.spread(v for v in values if isinstance(v, (int, float)))

    def spread_to(self, target: float, name: str) -> Optional[metrics.Spread]:
        """Return the spread of a field of `Cost` over the runs that reached a target."""
        costs = [metrics.cost_to(run.rows, target) for run in self.counted]
        values = [getattr(cost, name) for cost in costs if cost is not None]
        return metrics.spread(value for value in values if value is not None)


def read_run(path: str, shown: str) -> Run:
    """Read the run in a folder.

    Args:
      path: The folder.
      shown: Its name in the report.

    Raises:
      ReportError: If one of its files cannot be read.
    """
    content = read_json(os.path.join(path, "config.json"))
    summary = read_json(os.path.join(path, "summary.json"))
    try:
        config = checks.parse(Config, "config.json", content)
        if config.settings:
            known = checks.parse(KnownSettings, "settings", config.settings)
            if known.capacities:
                tiers.parse_drawn(known.capacities)
            if known.tiers:
                tiers.parse(known.tiers, clients=known.clients)
        rows = metrics.read(path)
        current = _summarize(config.settings, rows) if rows else {}
        similarity = _read_similarity(path)
        activations = neurons.read(os.path.join(path, neurons.ACTIVATIONS))
        examples = neurons.read(os.path.join(path, neurons.EXAMPLES), is_example=True)
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise ReportError(
            f"config.json and metrics.csv must be those of a run. Received: {shown} with "
            f"{type(error).__name__}: {error}"
        ) from error
    # A run that resumed after it was stopped still has the summary of that time.
    analysed = similarity, activations, examples
    return Run(shown, config, rows, {**summary, **current}, *analysed)


def _read_similarity(path: str) -> list[dict[str, str]]:
    try:
        rows = text_files.read_csv(os.path.join(path, "similarity.csv"))
    except FileNotFoundError:
        return []
    for row in rows:
        _ = row["scheme"], row["name"], *(float(row[c]) for c in ("steps", "maximum", "mean"))
    return rows


def _summarize(settings: Fields, rows: Sequence[MetricsRow]) -> Fields:
    """Return the figures that metrics.csv gives now."""
    summary = summaries.summarize(settings, settings["data"], rows)
    cost = metrics.cost_to(rows, settings.get("target_accuracy"))
    if cost is not None:
        summary["simulated_seconds_to_target"] = cost.simulated_seconds
        summary["bytes_to_target"] = cost.bytes
    return {name: value for name, value in summary.items() if value is not None}


def read_json(path: str) -> dict[str, Json]:
    """Read an object from a file; empty if there is no such file.

    Raises:
      ReportError: If it is not a JSON object.
    """
    try:
        return text_files.read_json(path)
    except FileNotFoundError:
        return {}
    except text_files.ResultsError as error:
        raise ReportError(str(error)) from error


def one_of_each_seed(runs: Sequence[Run]) -> tuple[Run, ...]:
    """Return the furthest run of each seed: a run that was repeated counts once."""
    furthest: dict[int, Run] = {}
    for run in runs:
        if run.seed not in furthest or len(run.rows) > len(furthest[run.seed].rows):
            furthest[run.seed] = run
    return tuple(furthest[seed] for seed in sorted(furthest))
