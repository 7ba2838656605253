"""From a recipe and the flags beside it to runs: their experiments, folders and recipe.json.

A run's settings are those of the recipe's row, shrunk by `scale`, then what the user gives. They
are differences from a preset: the paper's where the data are real, else the task's demo, as the
paper's preset refuses embedded data.
"""

from __future__ import annotations

import dataclasses
import functools
import pathlib
import shlex
from collections.abc import Mapping
from typing import Any, Callable, Optional

from tff_partial.core import checks as core_checks
from tff_partial.core.fields import Value
from tff_partial.experiments import bundled, config, flags
from tff_partial.experiments.bundled import tasks
from tff_partial.experiments.execution import Execution
from tff_partial.recipes import catalog, checks
from tff_partial.recipes import document as recipe_document
from tff_partial.recipes import scale as recipe_scale
from tff_partial.recipes.schema import Recipe, Row
from tff_partial.results.schema import RecipeResults
from tff_partial.similarity import neurons
from tff_partial.similarity.schemes import FIGURES

FOLDER = "results/recipes"
Settings = dict[str, Value]
"""Flags by name."""


@dataclasses.dataclass(frozen=True)
class Options:
    """What the user asks for.

    Attributes:
      recipe: Its name.
      scale: In (0, 1]; 1 is the paper.
      only: Rows, see `catalog.select`.
      seeds: Runs of each row.
      given: The other flags that were given, by name.
      reduced: Whether the recipe's reduced settings take the place of the paper's.
    """

    recipe: str
    scale: float = 1.0
    only: str = ""
    seeds: int = 1
    given: Mapping[str, Any] = dataclasses.field(default_factory=dict)
    reduced: bool = False

    @property
    def folder(self) -> str:
        """The name of the results' folder."""
        return "reduced" if self.reduced else f"scale-{self.scale:g}"

    @property
    def deciding(self) -> Settings:
        """What is given and decides results."""
        return {name: value for name, value in self.given.items() if not checks.is_place(name)}


@dataclasses.dataclass(frozen=True)
class Run:
    """One run.

    Attributes:
      row: The recipe's row.
      seed: The seed.
      arguments: Its command after `python`.
      folder: Where its results go.
      log: Where its output goes.
      experiment: What it trains.
      is_embedded: Whether its data are embedded.
      figure: That of `tff_partial.similarity`; None for any other program.
    """

    row: Row
    seed: int
    arguments: tuple[str, ...]
    folder: pathlib.Path
    log: pathlib.Path
    experiment: config.Experiment
    is_embedded: bool
    figure: Optional[int] = None

    @property
    def name(self) -> str:
        return f"{self.row.id} seed {self.seed}"

    @property
    def rounds(self) -> int:
        return self.experiment.settings.rounds

    @property
    def result(self) -> str:
        """The file that an analysis writes last; empty for other runs."""
        return checks.RESULTS.get(self.arguments[1], "")

    @property
    def schemes(self) -> tuple[str, ...]:
        """What a figure compares: each trains all rounds, in a folder of its own."""
        return () if self.figure is None else FIGURES[self.figure]

    @property
    def total_rounds(self) -> int:
        return self.rounds * max(1, len(self.schemes))


@dataclasses.dataclass(frozen=True)
class PlannedRow:
    """A row at this scale: its settings without seed and folder, and what they describe.

    Attributes:
      row: The recipe's row.
      program: What python runs.
      settings: Its flags.
      experiment: What they describe.
      paper: The same at the paper's scale.
      is_embedded: Whether its data are embedded.
    """

    row: Row
    program: tuple[str, ...]
    settings: Settings
    experiment: config.Experiment
    paper: config.Experiment
    is_embedded: bool

    @property
    def command(self) -> str:
        """The command as it is shown, without machine paths."""
        shown = {k: v for k, v in self.settings.items() if k == "data" or not checks.is_place(k)}
        words = [shlex.quote(word) for word in ["python", *self.program, *texts(shown)]]
        return " ".join([*words, *(["--data_dir=<folder>"] if "data_dir" in self.settings else [])])


@dataclasses.dataclass(frozen=True)
class Plan:
    """A recipe's or a sweep's runs.

    Attributes:
      recipe: The recipe.
      rows: Those of its rows that are run.
      folder: Where everything is written.
      runs: The runs.
      merge: Returns what recipe.json is to say: this start added to what is there by then. It
        raises a ValueError if that has other settings.
    """

    recipe: Recipe
    rows: tuple[Row, ...]
    folder: pathlib.Path
    runs: tuple[Run, ...]
    merge: Callable[[], RecipeResults]

    @property
    def document(self) -> RecipeResults:
        return self.merge()


def create(options: Options) -> Plan:
    """Check everything that can be checked before a run starts; write nothing.

    Raises:
      ValueError: In one line.
    """
    recipe = catalog.load(options.recipe)
    recipe_scale.check(options.scale)
    checks.check_recipe(recipe)
    checks.check_given(recipe, options.given)
    rows = catalog.select(recipe, options.only)
    if recipe.of:  # a figure that is drawn from the runs of a table
        recipe = catalog.load(catalog.beside(options.recipe, recipe.of))
    is_exact = recipe.kind == "exact"
    if options.reduced and not all(row.reduced for row in rows):
        raise ValueError(f"reduced must be of a recipe that has it. Received: {recipe.name}")
    if is_exact:
        options = dataclasses.replace(options, scale=1.0)
    folder = pathlib.Path(options.given.get("output_dir") or FOLDER, recipe.name, options.folder)
    planned = [] if is_exact else [_plan_row(recipe, row, options) for row in rows]
    checks.check_hyperparameters(options.given, {row.experiment.algo for row in planned})
    first = options.given.get("seed", 0)
    if first + options.seeds > 2**63:
        raise ValueError(
            f"seeds must be below 2**63. Received: seed={first}, {options.seeds} seeds"
        )
    figure = checks.ANALYSES.get(recipe.source) if recipe.kind == "analysis" else None
    runs = [
        run_of(row, seed, folder, figure)
        for seed in range(first, first + options.seeds)
        for row in planned
    ]
    document = recipe_document.create(recipe, rows, planned, options)
    path = folder / recipe_document.NAME
    merge = functools.partial(recipe_document.merged, path, document, recipe)
    merge()  # checks it
    return Plan(recipe, rows, folder, tuple(runs), merge)


def _plan_row(recipe: Recipe, row: Row, options: Options) -> PlannedRow:
    """Return a row's settings at this scale, with what the user gives."""
    paper = config.create(**{**row.settings, "preset": "paper"})
    reduced = {name: each.value for name, each in row.reduced.items() if options.reduced}
    changes = {**reduced, **options.given}
    task = _task(changes.get("task", paper.task.name))
    is_embedded = _is_embedded(task, options)
    given = {name: value for name, value in changes.items() if name in flags.SETTINGS}
    given = config.without_zero_target(given)
    scaled = recipe_scale.scaled(paper.settings, options.scale, given, is_embedded)
    bundled.check_model_fits(scaled.model, task)
    _check_writers(scaled.partition, task)
    settings: Settings = {"task": task.name, "algo": paper.algo}
    base = task.small(not is_embedded)
    if not is_embedded and task is paper.task:
        settings |= {"preset": "paper", "paper": row.settings["paper"]}
        base = task.papers[row.settings["paper"]]
    if recipe.kind == "analysis":  # its own presets have others of these
        own = ("clients", "rounds") if checks.ANALYSES[recipe.source] else neurons.CHOSEN
        settings |= {name: getattr(scaled, name) for name in own}
    settings |= _differences(scaled, base) | _others(row.settings, paper.algo)
    settings |= _others(changes, paper.algo)
    experiment = config.create(is_real=not is_embedded, **settings)
    program, settings = _program(recipe, settings | _data_settings(is_embedded, options), options)
    return PlannedRow(row, program, settings, experiment, paper, is_embedded)


def _check_writers(partition: str, task: tasks.Task) -> None:
    if tasks.partition.parse(partition)[0] == "natural" and not task.writers:
        raise ValueError(
            f"partition must be given, and not be natural, for {task.name}, which has no writers. "
            f"Received: partition={partition!r}"
        )


def _data_settings(is_embedded: bool, options: Options) -> Settings:
    if is_embedded:
        return {"data": "embedded"}
    folder = options.given.get("data_dir")
    return {"data": "tfds", **({"data_dir": folder} if folder else {})}


def _program(
    recipe: Recipe, settings: Settings, options: Options
) -> tuple[tuple[str, ...], Settings]:
    """Return what python runs, and the settings that it takes as flags."""
    if recipe.kind == "analysis":
        taken = {name: value for name, value in settings.items() if name in checks.ANALYSIS}
        return ("-m", *recipe.source.split()), taken
    execution = {n: options.given[n] for n in checks.EXECUTION if n in options.given}
    Execution(**execution)  # checks it
    return ("run_experiment.py",), {**settings, **execution}


def texts(settings: Mapping[str, object]) -> list[str]:
    """Return settings as they are written on a command line."""
    return [
        f"--{name}={str(value).lower() if isinstance(value, bool) else value}"
        for name, value in settings.items()
    ]


def _differences(settings: tasks.Settings, base: tasks.Settings) -> Settings:
    """Return the settings that differ from a preset and can be given as flags."""
    every, of_base = dataclasses.asdict(settings), dataclasses.asdict(base)
    if settings.target_accuracy is None and base.target_accuracy is not None:
        every["target_accuracy"] = 0
    return {
        name: every[name]
        for name in flags.SETTINGS
        if every[name] not in (None, "") and every[name] != of_base[name]
    }


def _others(settings: Mapping[str, Any], algo: str) -> Settings:
    """Return what decides results beside task and settings: devices, the algorithm's own."""
    known = (*flags.SETTINGS, *checks.OWN, "task", "seed")
    decides = [name for name in settings if name in flags.DECIDING and name not in known]
    return {name: settings[name] for name in decides if flags.OWNERS.get(name, algo) == algo}


def _task(name: str) -> tasks.Task:
    core_checks.one_of("task", name, sorted(tasks.TASKS))
    return tasks.TASKS[name]


def _is_embedded(task: tasks.Task, options: Options) -> bool:
    """Return whether a task's data will be embedded, which the paper's scale does not take."""
    data = options.given.get("data", "auto")
    core_checks.one_of("data", data, tasks.DATA_KINDS)
    if task.generate is not None or data == "tfds":
        return False
    if data == "auto" and task.is_prepared and task.is_prepared(options.given.get("data_dir")):
        return False
    if options.scale == 1:
        kind = "reduced" if options.reduced else "scale=1"
        raise ValueError(
            f"{kind} must have the real data: --data=tfds downloads them, --data_dir names a "
            "folder where they are prepared; a smaller --scale runs on embedded data. "
            f"Received: no real data of {task.name}"
        )
    return True


def run_of(
    planned: PlannedRow, seed: int, folder: pathlib.Path, figure: Optional[int] = None
) -> Run:
    """Return the run of a row with a seed, below the folder of all."""
    row = planned.row
    place = folder / row.id / f"seed-{seed}"
    arguments = [*planned.program, *texts({**planned.settings, "seed": seed, "output_dir": place})]
    log = folder / "logs" / f"{row.id}-seed-{seed}.log"
    experiment = dataclasses.replace(planned.experiment, seed=seed)
    return Run(row, seed, tuple(arguments), place, log, experiment, planned.is_embedded, figure)
