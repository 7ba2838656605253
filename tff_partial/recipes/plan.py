"""From a recipe and the flags beside it to runs: their flags, their folders and recipe.json.

A run's flags are those of the recipe's row, shrunk by `recipe_scale`, then what the user gives.
They are written as differences from a preset: the paper's where the data are real, else the task's
demo, as the paper's preset refuses embedded data.
"""

from __future__ import annotations

import dataclasses
import functools
import pathlib
import shlex
from collections.abc import Mapping, Sequence
from typing import Any, Callable, Optional

from tff_partial.algorithms import registry
from tff_partial.experiments import bundled, config
from tff_partial.experiments.bundled import tasks
from tff_partial.recipes import catalog
from tff_partial.recipes import document as recipe_document
from tff_partial.recipes import scale as recipe_scale
from tff_partial.recipes.schema import Recipe, Row
from tff_partial.results.schema import RecipeResults
from tff_partial.similarity import study

FOLDER = "results/recipes"
SETTINGS = tuple(f.name for f in dataclasses.fields(tasks.Settings) if f.name != "source")
# Flags that say where and how, not what: they may change when a recipe is started again.
EXECUTION = (
    "runtime",
    "workers",
    "client_parallelism",
    "checkpoint_every",
    "client_state",
    "client_state_cache",
)
_OWN = ("algo", "preset", "paper")  # only the recipe says these
_PLACES = ("output_dir", "seed", "data", "data_dir")
# What decides results and is neither a setting nor a hyperparameter.
_BESIDE = ("normalization", "augment", "device_speeds", "round_deadline", "full_model_seconds")
# What a recipe of kind `analysis` may have as its source: a program with its arguments. A recipe is
# a file from anywhere, so nothing else is run.
ANALYSES = {f"tff_partial.similarity --figure={n}": n for n in study.FIGURES}
# What they take of a run's flags.
_ANALYSIS = (
    "task",
    "preset",
    "model",
    "width",
    "partition",
    "clients",
    "rounds",
    "local_steps",
    "batch_size",
    "learning_rate",
    "momentum",
    "weight_decay",
    "train_examples",
    "data",
    "data_dir",
)

Build = Callable[[Sequence[str]], config.Experiment]


@dataclasses.dataclass(frozen=True)
class Options:
    """What the user asks for.

    Attributes:
      recipe: Its name.
      scale: In (0, 1]; 1 is the paper.
      only: Rows, see `recipes.select`.
      seeds: Runs of each row.
      given: The other flags that were given, by name.
    """

    recipe: str
    scale: float = 1.0
    only: str = ""
    seeds: int = 1
    given: Mapping[str, Any] = dataclasses.field(default_factory=dict)

    @property
    def deciding(self) -> dict[str, Any]:
        """What is given and decides results."""
        return {name: value for name, value in self.given.items() if not _is_place(name)}


def _is_place(flag: str) -> bool:
    """Whether it says where and how, folders included."""
    return flag in (*EXECUTION, "seed", "data") or flag.endswith("_dir")


@dataclasses.dataclass(frozen=True)
class Run:
    """One run: its row and seed, its command after `python`, where its files go."""

    row: Row
    seed: int
    arguments: tuple[str, ...]
    folder: pathlib.Path
    log: pathlib.Path
    experiment: config.Experiment
    is_embedded: bool

    @property
    def name(self) -> str:
        return f"{self.row.id} seed {self.seed}"

    @property
    def rounds(self) -> int:
        return self.experiment.settings.rounds

    @functools.cached_property
    def figure(self) -> Optional[int]:
        """Of `tff_partial.similarity`; None for any other program."""
        is_analysis = self.arguments[0] == "-m"
        return ANALYSES[" ".join(self.arguments[1:3])] if is_analysis else None

    @property
    def schemes(self) -> tuple[str, ...]:
        """What a figure compares: each trains all rounds, in a folder of its own."""
        return () if self.figure is None else study.FIGURES.get(self.figure, ())

    @property
    def total_rounds(self) -> int:
        return self.rounds * max(1, len(self.schemes))


@dataclasses.dataclass(frozen=True)
class Plan:
    """A recipe's runs, and what recipe.json says of them."""

    recipe: Recipe
    rows: tuple[Row, ...]
    folder: pathlib.Path
    runs: tuple[Run, ...]
    document: RecipeResults


def create(options: Options, build: Build) -> Plan:
    """Checks everything that can be checked before a run starts; writes nothing.

    Args:
      options: What the user asks for.
      build: Flags of run_experiment.py -> the experiment that they describe.

    Raises:
      ValueError: In one line.
    """
    recipe = catalog.load(options.recipe)
    recipe_scale.check(options.scale)
    _check_source(recipe)
    _check_given(recipe, options)
    rows = catalog.select(recipe, options.only)
    folder = pathlib.Path(options.given.get("output_dir") or FOLDER, recipe.name)
    is_exact = recipe.kind == "exact"
    scale = 1.0 if is_exact else options.scale
    folder /= f"scale-{scale:g}"
    found = [] if is_exact else [_of_row(recipe, row, options, build) for row in rows]
    _check_hyperparameters(options.given, found)
    first = options.given.get("seed", 0)
    if first + options.seeds > 2**63:
        raise ValueError(
            f"seeds must be below 2**63. Received: seed={first}, {options.seeds} seeds"
        )
    runs = [
        _run(planned, seed, folder)
        for seed in range(first, first + options.seeds)
        for planned in found
    ]
    document = recipe_document.create(recipe, rows, found, options.deciding, scale)
    document = recipe_document.merged(folder / recipe_document.NAME, document, recipe)
    return Plan(recipe, rows, folder, tuple(runs), document)


def _check_source(recipe: Recipe) -> None:
    """Refuses programs that are no known analysis, and keys that a recipe cannot set."""
    if recipe.kind == "analysis" and recipe.source not in ANALYSES:
        raise ValueError(
            f"{recipe.name}, source must be one of {', '.join(ANALYSES)}. "
            f"Received: {recipe.source!r}"
        )
    known = _known_keys(recipe.kind)
    for row in recipe.rows:
        unknown = sorted({*row.settings} - known)
        if unknown:
            raise ValueError(
                f"{recipe.name}, {row.id} must have settings that decide the results of "
                f"{recipe.kind}, no folders, seeds or other flags. Received: {unknown}"
            )
        nested = {k: v for k, v in row.settings.items() if not isinstance(v, (str, int, float))}
        if nested:
            raise ValueError(
                f"{recipe.name}, {row.id} must have numbers, texts or booleans as settings. "
                f"Received: {nested}"
            )


def _known_keys(kind: str) -> set[str]:
    """What a recipe can set: what decides results."""
    if kind == "exact":
        return set()
    if kind == "analysis":
        return {"algo", "paper", "clients_per_round", *_ANALYSIS} - {"preset", *_PLACES}
    hyperparameters = [name for name in _owners() if not name.endswith("_dir")]
    return {"task", "algo", "paper", *SETTINGS, *_BESIDE, *hyperparameters}


def _check_given(recipe: Recipe, options: Options) -> None:
    """Refuses flags that would have no effect, or are the recipe's own."""
    refused = [f"--{name}" for name in _OWN if name in options.given]
    if refused:
        raise ValueError(f"{', '.join(_OWN)} must not be given with recipe. Received: {refused}")
    execution = [f"--{name}" for name in EXECUTION if name in options.given]
    if recipe.kind != "runs" and execution:
        raise ValueError(
            f"{recipe.name} must be given no {', '.join(EXECUTION)}: it consists of no runs. "
            f"Received: {execution}"
        )
    deciding = [f"--{name}" for name in options.deciding]
    if recipe.kind == "exact" and deciding:
        raise ValueError(
            f"{recipe.name}, which is computed exactly, must be given no flags that decide "
            f"results. Received: {deciding}"
        )
    taken = [name for name in _ANALYSIS if name not in _OWN]
    unknown = [f"--{name}" for name in options.deciding if name not in taken]
    if recipe.kind == "analysis" and unknown:
        raise ValueError(
            f"{recipe.name}, an analysis, must be given no flags but {', '.join(taken)}. "
            f"Received: {unknown}"
        )


def _check_hyperparameters(given: Mapping[str, Any], found: Sequence[PlannedRow]) -> None:
    """Refuses hyperparameters of algorithms that no row has."""
    algorithms = {planned.experiment.algo for planned in found}
    owners = _owners()
    useless = [f"--{n}" for n in given if n in owners and owners[n] not in algorithms]
    if useless:
        raise ValueError(
            "hyperparameters must be of an algorithm of the rows, "
            f"{', '.join(sorted(algorithms))}. Received: {useless}"
        )


@dataclasses.dataclass(frozen=True)
class PlannedRow:
    """A row's flags at this scale, without seed and folder, and whether its data are embedded."""

    row: Row
    program: tuple[str, ...]
    flags: Mapping[str, Any]
    experiment: config.Experiment
    is_embedded: bool

    @property
    def command(self) -> str:
        """As it is shown, without machine paths."""
        shown = {k: v for k, v in self.flags.items() if k == "data" or not _is_place(k)}
        words = [shlex.quote(word) for word in ["python", *self.program, *texts(shown)]]
        return " ".join([*words, *(["--data_dir=<folder>"] if "data_dir" in self.flags else [])])


def _of_row(recipe: Recipe, row: Row, options: Options, build: Build) -> PlannedRow:
    missing = [name for name in ("task", "algo", "paper") if name not in row.settings]
    if missing:
        raise ValueError(f"{recipe.name}, {row.id} must have {missing}. Received: {row.settings}")
    paper = build(texts({**row.settings, "preset": "paper"}))
    task = _task(options.given.get("task", paper.task.name))
    is_embedded = _is_embedded(task, options)
    given = {name: value for name, value in options.given.items() if name in SETTINGS}
    given = config.without_zero_target(given)
    settings = recipe_scale.scaled(paper.settings, options.scale, given, is_embedded)
    bundled.check_model_fits(settings.model, task)
    _check_writers(settings.partition, task)
    flags: dict[str, Any] = {"task": task.name, "algo": paper.algo}
    base = task.demo
    if not is_embedded and task is paper.task:
        flags |= {"preset": "paper", "paper": row.settings["paper"]}
        base = task.papers[row.settings["paper"]]
    if recipe.kind == "analysis":  # whose own presets have other numbers of them
        flags |= {"clients": settings.clients, "rounds": settings.rounds}
    flags |= differences(settings, base) | _others(row.settings)
    flags |= _others(_of_algorithm(options.given, paper.algo))
    experiment = build(texts(flags))
    program, flags = _program(recipe, flags | _data_flags(is_embedded, options), options)
    return PlannedRow(row, program, flags, experiment, is_embedded)


def _check_writers(partition: str, task: Any) -> None:
    if tasks.partition.parse(partition)[0] == "natural" and not task.writers:
        raise ValueError(
            f"partition must be given, and not be natural, for {task.name}, which has no writers. "
            f"Received: partition={partition!r}"
        )


def _data_flags(is_embedded: bool, options: Options) -> dict[str, Any]:
    if is_embedded:
        return {"data": "embedded"}
    folder = options.given.get("data_dir")
    return {"data": "tfds", **({"data_dir": folder} if folder else {})}


def _program(
    recipe: Recipe, flags: Mapping[str, Any], options: Options
) -> tuple[tuple[str, ...], dict[str, Any]]:
    """What python runs, and the flags that it takes."""
    if recipe.kind == "analysis":
        taken = {name: value for name, value in flags.items() if name in _ANALYSIS}
        return ("-m", *recipe.source.split()), taken
    execution = {name: options.given[name] for name in EXECUTION if name in options.given}
    return ("run_experiment.py",), {**flags, **execution}


def texts(values: Mapping[str, Any]) -> list[str]:
    """Flags as they are written on a command line."""
    return [
        f"--{name}={str(value).lower() if isinstance(value, bool) else value}"
        for name, value in values.items()
    ]


def differences(settings: Any, base: Any) -> dict[str, Any]:
    """The settings that differ from a preset and can be given as flags."""
    found = {name: getattr(settings, name) for name in SETTINGS}
    if found["target_accuracy"] is None and base.target_accuracy is not None:
        found["target_accuracy"] = 0
    return {
        name: value
        for name, value in found.items()
        if value not in (None, "") and value != getattr(base, name)
    }


def _others(flags: Mapping[str, Any]) -> dict[str, Any]:
    """Flags that are no settings, such as an algorithm's own."""
    known = (*SETTINGS, *EXECUTION, *_PLACES, *_OWN, "task")
    return {name: value for name, value in flags.items() if name not in known}


def _of_algorithm(given: Mapping[str, Any], algo: str) -> dict[str, Any]:
    """Without the hyperparameters of other algorithms."""
    owners = _owners()
    return {name: value for name, value in given.items() if owners.get(name, algo) == algo}


@functools.cache
def _owners() -> dict[str, str]:
    """Flag of a hyperparameter -> its algorithm."""
    return {
        f"{name}_{hyperparameter.name}": name
        for name, algorithm in registry.ALGORITHMS.items()
        for hyperparameter in algorithm.hyperparameters
    }


def _task(name: str) -> Any:
    if name not in tasks.TASKS:
        raise ValueError(f"task must be one of {sorted(tasks.TASKS)}. Received: task={name!r}")
    return tasks.TASKS[name]


def _is_embedded(task: Any, options: Options) -> bool:
    """Whether a task's data will be embedded, which the paper's scale does not take."""
    data = options.given.get("data", "auto")
    if data not in config.DATA:
        raise ValueError(f"data must be one of {config.DATA}. Received: data={data!r}")
    if task.generate is not None or data == "tfds":
        return False
    if data == "auto" and task.is_prepared(options.given.get("data_dir")):
        return False
    if options.scale == 1:
        raise ValueError(
            "scale=1 must have the real data: --data=tfds downloads them, --data_dir names a "
            "folder where they are prepared; a smaller --scale runs on embedded data. "
            f"Received: no real data of {task.name}"
        )
    return True


def _run(planned: PlannedRow, seed: int, folder: pathlib.Path) -> Run:
    row = planned.row
    place = folder / row.id / f"seed-{seed}"
    arguments = [*planned.program, *texts({**planned.flags, "seed": seed, "output_dir": place})]
    log = folder / "logs" / f"{row.id}-seed-{seed}.log"
    experiment = dataclasses.replace(planned.experiment, seed=seed)
    return Run(row, seed, tuple(arguments), place, log, experiment, planned.is_embedded)
