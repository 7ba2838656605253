"""From a sweep to its runs: the settings, their folders and sweep.json."""

from __future__ import annotations

import dataclasses
import functools
import hashlib
import itertools
import json
import os
import pathlib
import re
from collections.abc import Iterator, Mapping
from typing import Any, Optional

from tff_partial.core import checks as core_checks
from tff_partial.core import own_code
from tff_partial.core.fields import Value
from tff_partial.experiments import bundled, components, config, flags, own
from tff_partial.experiments.execution import Execution
from tff_partial.experiments.run import new_folder
from tff_partial.recipes import checks, schema
from tff_partial.recipes.plan import Plan, PlannedRow, Settings, run_of
from tff_partial.recipes.sweep_text import Swept
from tff_partial.results import checks as results_checks
from tff_partial.results import text_files
from tff_partial.results.folder import MAY_CHANGE
from tff_partial.results.schema import SWEEP_FILE, Metric, RecipeResults, RecipeRow
from tff_partial.system import files, folder_lock

METRICS = {
    metric.name: metric
    for metric in (
        Metric("final_test_accuracy", "final test accuracy", "%", True),
        Metric("best_test_accuracy", "best test accuracy", "%", True),
        Metric("rounds_to_target", "rounds to the target accuracy", "rounds", False),
        Metric("simulated_seconds_to_target", "simulated seconds to the target", "s", False),
    )
}
MOST_RUNS, _LONGEST_ID = 10_000, 100
_PROGRAM = ("run_experiment.py",)


@dataclasses.dataclass(frozen=True)
class Options:
    """What the user asks for.

    Attributes:
      swept: The flags that vary, see `sweep_text`; none for one setting.
      given: The other flags, by name.
      seeds: Runs of each setting, from --seed on; None for the seeds of `swept`, or one.
      metric: What the best setting is chosen by, a key of `METRICS`.
    """

    swept: Swept
    given: Mapping[str, Any]
    seeds: Optional[int] = None
    metric: str = "final_test_accuracy"

    def __post_init__(self) -> None:
        core_checks.one_of("sweep_metric", self.metric, METRICS)
        twice = sorted({*self.swept} & {*self.given})
        if twice or ("seed" in self.swept and self.seeds is not None):
            raise ValueError(
                "a flag must be given alone or in sweep, and seeds in one place. "
                f"Received: {', '.join(twice) or 'seed in sweep, and seeds'}"
            )

    @property
    def data_dir(self) -> Optional[str]:
        return self.given.get("data_dir")

    @property
    def all_seeds(self) -> tuple[int, ...]:
        if "seed" in self.swept:
            return tuple(int(seed or 0) for seed in self.swept["seed"])
        first = self.given.get("seed") or 0
        return tuple(range(first, first + (self.seeds or 1)))


def create(options: Options) -> tuple[Plan, dict[str, Settings]]:
    """Check everything that can be checked; return the runs, and the values of each setting."""
    Execution(**{n: v for n, v in options.given.items() if n in flags.EXECUTION})  # checks it
    planned, combinations = [], {}
    for combination in _combinations(options):
        row = _row(combination, options)
        combinations[row.id] = combination
        planned.append(_plan_row(row, combination, options))
    algorithms = {row.experiment.algo for row in planned}
    checks.check_hyperparameters([*options.swept, *options.given], algorithms)
    seeds = options.all_seeds
    if len(planned) * len(seeds) > MOST_RUNS:
        raise ValueError(
            f"a sweep must have at most {MOST_RUNS:,} runs. Received: {len(planned) * len(seeds):,}"
        )
    names = [name for name in options.swept if name != "seed"]
    tasks = {row.experiment.task.name: None for row in planned}
    folder = options.given.get("output_dir") or new_folder(
        f"{'-'.join(tasks)}-{'-'.join(sorted(algorithms))}-{'sweep' if names else 'seeds'}"
    )
    title = f"Sweep over {', '.join(names)}" if names else "Seeds"
    title += f": {', '.join(tasks)}, {', '.join(sorted(algorithms))}"
    document = _document(title, planned, options)
    merge = functools.partial(_merged, pathlib.Path(folder), document)
    merge()  # checks it
    rows = tuple(row.row for row in planned)
    recipe = schema.Recipe(title, title, "", "runs", METRICS[options.metric], rows)
    runs = [run_of(row, seed, pathlib.Path(folder)) for seed in seeds for row in planned]
    return Plan(recipe, rows, pathlib.Path(folder), tuple(runs), merge), combinations


def _combinations(options: Options) -> Iterator[Settings]:
    """Yield the values of each setting, without hyperparameters of other algorithms, once each."""
    swept = {name: values for name, values in options.swept.items() if name != "seed"}
    seen = set()
    for values in itertools.product(*swept.values()):
        combination: Settings = dict(zip(swept, values))
        algo = str(combination.get("algo") or options.given.get("algo") or _default("algo"))
        combination = _without_others(combination, algo)
        key = tuple(combination.items())
        if key not in seen:
            seen.add(key)
            yield combination


def _without_others(settings: Mapping[str, Any], algo: str) -> Settings:
    return {n: value for n, value in settings.items() if flags.OWNERS.get(n, algo) == algo}


def _default(name: str) -> Value:
    return flags.DECIDING[name].default


def _row(combination: Settings, options: Options) -> schema.Row:
    """Return the setting's row; its id, which names its folder, is like `learning_rate=0.1`."""
    words = [f"{name}={_text(value)}" for name, value in combination.items()]
    label = ", ".join(words) or str(options.given.get("algo") or _default("algo"))
    name = re.sub(r"[^\w.,:=+-]+", "-", label.replace(", ", ","))
    if name != label.replace(", ", ",") or len(name) > _LONGEST_ID:
        digest = hashlib.sha256(label.encode()).hexdigest()[:8]
        name = f"{name[:_LONGEST_ID]}-{digest}"
    return schema.Row(name, label)


def _text(value: Value) -> str:
    return str(value).lower() if isinstance(value, bool) else str(value)


def _plan_row(row: schema.Row, combination: Settings, options: Options) -> PlannedRow:
    """Return what is run for a setting; raise a ValueError if the settings do not fit."""
    apart = ("seed", "output_dir")
    given = {name: value for name, value in options.given.items() if name not in apart}
    algo = str(combination.get("algo") or given.get("algo") or _default("algo"))
    settings = {**_without_others(given, algo), **combination}
    deciding = {name: value for name, value in settings.items() if name in flags.DECIDING}
    data = str(given.get("data") or flags.EXECUTING["data"].default)
    core_checks.one_of("data", data, bundled.tasks.DATA_KINDS)
    try:
        task, _ = own.task_of(deciding.get("task") or _default("task"))
        is_real = task.has_real(data, given.get("data_dir"))
        experiment = config.create(is_real=is_real, **deciding)
        is_ours = bundled.tasks.TASKS.get(task.name) is task
        is_embedded = is_ours and task.generate is None and not is_real
        if experiment.preset == "paper" and is_embedded:
            raise ValueError(f"{components.PAPER_NEEDS_REAL_DATA}Received: data={data!r}")
        if options.metric.endswith("_to_target") and not experiment.settings.target_accuracy:
            raise ValueError(
                f"target_accuracy must be given with sweep_metric={options.metric}. Received: none"
            )
        if not own_code.is_name(experiment.settings.model):
            bundled.check_model_fits(experiment.settings.model, experiment.task)
    except ValueError as error:
        raise ValueError(f"{error} (in {row.label})" if combination else str(error)) from None
    return PlannedRow(row, _PROGRAM, settings, experiment, experiment, is_embedded)


def _document(title: str, planned: list[PlannedRow], options: Options) -> RecipeResults:
    rows = tuple(RecipeRow(each.row.id, each.row.label, {}, each.command) for each in planned)
    given = {name: value for name, value in options.given.items() if not checks.is_place(name)}
    names = sorted({run.experiment.task.name for run in planned if run.is_embedded})
    notes = tuple(f"Embedded data stand for {name}, not the real set." for name in names)
    metric = METRICS[options.metric]
    return RecipeResults("", title, "", "runs", metric, rows, notes=notes, given=given)


def _merged(folder: pathlib.Path, results: RecipeResults) -> RecipeResults:
    """Return sweep.json with the settings of an earlier start, to which this one adds.

    Raises:
      ValueError: If the folder holds something else, or what does not vary was different.
    """
    path = folder / SWEEP_FILE
    beginnings = {folder_lock.NAME, SWEEP_FILE + files.TEMPORARY}
    is_sweeps = path.exists() or not folder.is_dir() or {*os.listdir(folder)} <= beginnings
    if not is_sweeps:
        raise ValueError(f"output_dir must be new, empty or that of a sweep. Received: {folder}")
    try:
        content = text_files.read_json(str(path))
        previous = results_checks.parse(RecipeResults, SWEEP_FILE, content)
    except FileNotFoundError:
        return results
    except (OSError, ValueError) as error:
        raise ValueError(f"{path} must be that of a sweep. Received: {error}") from None
    # Runs may be extended, and tested otherwise from there on.
    before, now = ({**each.given, **dict.fromkeys(MAY_CHANGE)} for each in (previous, results))
    if before != json.loads(json.dumps(now)):
        raise ValueError(
            "output_dir must be new or hold a sweep with the same other settings. "
            f"Received: {folder} with {dict(previous.given)}"
        )
    rows = {row.id: row for row in (*previous.rows, *results.rows)}
    return dataclasses.replace(results, rows=tuple(rows.values()))
