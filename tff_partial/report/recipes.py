"""Sections of a report: a recipe (a table of a paper), a sweep, or runs that can be compared."""

from __future__ import annotations

import dataclasses
import glob
import os
from collections.abc import Mapping
from typing import Optional

from tff_partial.report import commands, runs
from tff_partial.report.runs import ReportError, Row, Run
from tff_partial.results import checks
from tff_partial.results.schema import (
    KINDS,
    NO_RECIPE,
    RECIPE_FILE,
    SWEEP_FILE,
    RecipeResults,
    RecipeRow,
)


@dataclasses.dataclass(frozen=True)
class Section:
    """A part of the report, with its own tables and figure.

    Attributes:
      title: Its heading.
      rows: The rows of its tables.
      results: recipe.json or sweep.json; `NO_RECIPE` for single runs.
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
        is_whole = self.scale == 1 and not self.given and not self.results.reduced
        return self.scale is None or is_whole

    @property
    def setting(self) -> str:
        """How far it is the paper's setting; empty if nothing was trained for a paper."""
        return ": ".join(filter(None, self._setting))

    @property
    def coverage(self) -> str:
        """The same with rows and seeds: `changed: 3 of 10 rows, 60 of 1,000 rounds, 1 seed`."""
        scale, differences = self._setting
        if not scale:
            return ""
        done = [row for row in self.rows if row.finished]
        rows = f"{len(done)} of {self.results.all_rows or len(self.rows)} rows"
        numbers = sorted({len(row.finished) for row in done})
        seeds = " to ".join(str(number) for number in dict.fromkeys([*numbers[:1], *numbers[-1:]]))
        seeds = f"{seeds} seed{'' if seeds == '1' else 's'}" if seeds else ""
        return f"{scale}: {', '.join(filter(None, [rows, differences, seeds]))}"

    @property
    def _setting(self) -> tuple[str, str]:
        """What kind of setting it is, and how it differs from the paper's."""
        if self.scale is None:
            return "", ""
        if self.is_papers_setting:
            return "the paper's setting", ""
        scale = "changed" if self.scale == 1 else f"scale {self.scale:g}"
        flags = " ".join(f"--{name}={value}" for name, value in self.given.items())
        rule = self.results.scale_rule if self.scale != 1 else ""
        told = self.results.differences or "; ".join(filter(None, [rule, flags]))
        return "reduced" if self.results.reduced else scale, told

    @property
    def facts(self) -> tuple[str, ...]:
        """The sentences below the heading."""
        kind = self.results.kind
        facts = (
            self.coverage,
            KINDS[kind] if kind != "runs" else "",
            self.results.paper,
            f"data: {'; '.join(self.data)}" if self.data else "",
        )
        return tuple(f"{fact[:1].upper()}{fact[1:]}." for fact in facts if fact)

    @property
    def data(self) -> tuple[str, ...]:
        """Descriptions of the data; those that are not the real set are marked."""
        data = {(run.data, run.is_real): None for row in self.rows for run in row.runs if run.data}
        return tuple(name if is_real else f"{name}: {runs.NOT_REAL}" for name, is_real in data)

    @property
    def is_real(self) -> bool:
        return all(row.is_real for row in self.rows)

    @property
    def is_mixed(self) -> bool:
        """Whether some rows have real data and others have not: each is marked then."""
        return not self.is_real and any(row.is_real for row in self.rows if row.runs)


def read(root: str, folder: str) -> Section:
    """Read a recipe or a sweep.

    Args:
      root: The results folder.
      folder: The folder of its recipe.json or sweep.json.

    Raises:
      ReportError: If this file or a file of its runs is not in the format.
    """
    is_sweep = SWEEP_FILE in os.listdir(folder)
    name = SWEEP_FILE if is_sweep else RECIPE_FILE
    path = os.path.join(folder, name)
    content = runs.read_json(path)
    try:
        results = checks.parse(RecipeResults, name, content)
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
    return Row(row.label, row.columns, command, tuple(seeds), row.paper, id=row.id)


def _checked(run: Run, row: RecipeRow, results: RecipeResults) -> Run:
    """Return the run without a target that nobody asked for, its data marked if they stand in."""
    if not results.recipe:  # a sweep
        return run
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
