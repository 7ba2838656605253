"""Sections of a report: a recipe (a table of a paper), or single runs that can be compared."""

from __future__ import annotations

import dataclasses
import glob
import os
from collections.abc import Mapping
from typing import Optional

from tff_partial.report import commands, runs
from tff_partial.report.runs import ReportError, Row, Run
from tff_partial.results import checks
from tff_partial.results.schema import KINDS, NO_RECIPE, RecipeResults, RecipeRow

RECIPE = "recipe.json"


@dataclasses.dataclass(frozen=True)
class Section:
    """A part of the report, with its own tables and figure.

    Attributes:
      title: Its heading.
      rows: The rows of its tables.
      results: recipe.json; `NO_RECIPE` for single runs.
      remarks: Paragraphs below the tables.
    """

    title: str
    rows: tuple[Row, ...]
    results: RecipeResults = NO_RECIPE
    remarks: tuple[str, ...] = ()

    @property
    def name(self) -> str:
        recipe = self.results.recipe
        return f"{recipe}: {self.title}" if recipe else self.title

    @property
    def scale(self) -> Optional[float]:
        """The share of the paper's setting; None for single runs and exact tables."""
        return None if self.results.kind == "exact" else self.results.scale

    @property
    def given(self) -> Mapping[str, str]:
        """Flags that replace what the scale makes of the paper's settings."""
        return {name: commands.text_of(value) for name, value in self.results.given.items()}

    @property
    def is_papers_setting(self) -> bool:
        """Whether nothing was shrunk or changed; what is computed exactly never is."""
        return self.scale is None or (self.scale == 1 and not self.given)

    @property
    def scale_text(self) -> str:
        """How far it is the paper's setting, for captions; empty if there is no scale."""
        if self.scale is None:
            return ""
        scale = "the paper's setting" if self.scale == 1 else f"scale {self.scale:g}"
        return f"{scale} with changes" if self.given else scale

    @property
    def facts(self) -> tuple[str, ...]:
        """The sentences below the heading."""
        kind = self.results.kind
        facts = (
            self.results.paper,
            KINDS[kind] if kind != "runs" else "",
            *self._setting(),
            f"data: {'; '.join(self.data)}" if self.data else "",
        )
        return tuple(f"{fact[:1].upper()}{fact[1:]}." for fact in facts if fact)

    def _setting(self) -> tuple[str, ...]:
        """Return the scale and what was changed beside it, a sentence each."""
        if self.scale is None:
            return ()
        flags = " ".join(f"--{name}={value}" for name, value in self.given.items())
        if self.scale == 1:
            # Flags may shrink as much as a scale does: no "scale 1" beside them.
            changed = f", but for all rows: {flags}"
            return (f"the paper's setting{changed if flags else ' (scale 1)'}",)
        rule = f" ({self.results.scale_rule})" if self.results.scale_rule else ""
        scale = f"scale {self.scale:g} of the paper's setting{rule}"
        return (scale, f"changed beside the scale, for all rows: {flags}" if flags else "")

    @property
    def data(self) -> tuple[str, ...]:
        """Descriptions of the data; those that are not the real set are marked."""
        data = {(run.data, run.is_real): None for row in self.rows for run in row.runs if run.data}
        return tuple(name if is_real else f"{name}: {runs.NOT_REAL}" for name, is_real in data)

    @property
    def is_real(self) -> bool:
        return all(row.is_real for row in self.rows)


def read(root: str, folder: str) -> Section:
    """Read a recipe.

    Args:
      root: The results folder.
      folder: The folder of its recipe.json.

    Raises:
      ReportError: If recipe.json or a file of its runs is not in the format.
    """
    path = os.path.join(folder, RECIPE)
    content = runs.read_json(path)
    try:
        results = checks.parse(RecipeResults, RECIPE, content)
    except ValueError as error:
        raise ReportError(f"{error} in {path}") from error
    rows = tuple(_row(root, folder, row, results) for row in results.rows)
    return Section(results.title, rows, results)


def _row(root: str, folder: str, row: RecipeRow, results: RecipeResults) -> Row:
    """Read the runs of a row, a folder `seed-<k>` each."""
    paths = glob.glob(os.path.join(glob.escape(folder), row.id, "seed-*", ""))
    paths.sort(key=lambda path: (len(path), path))
    seeds = [runs.read_run(path, commands.shown_folder(root, path)) for path in paths]
    seeds = [_checked(run, row, results) for run in seeds if run.settings or run.summary]
    command = commands.clean(row.command, [root])
    # Without --seed a command repeats seed 0, and so it does if nothing was run.
    if any(run.seed for run in seeds):
        command = commands.with_seeds(command, seeds)
    return Row(row.label, row.columns, command, tuple(seeds), row.paper)


def _checked(run: Run, row: RecipeRow, results: RecipeResults) -> Run:
    """Return the run without a target that nobody asked for, its data marked if they stand in."""
    is_papers = run.settings.get("preset") == "paper"
    # The paper's preset is used only with the paper's task.
    stands_in = row.stands_in or ("task" in results.given and not is_papers)
    run = dataclasses.replace(run, stands_in=stands_in)
    asked = results.metric.has_target or is_papers or "--target_accuracy=" in row.command
    if asked or run.target is None:
        return run
    # Older runs have the target of the task's demo.
    settings = {**run.settings, "target_accuracy": None}
    return dataclasses.replace(run, config=dataclasses.replace(run.config, settings=settings))
