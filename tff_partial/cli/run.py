"""Trains a model federatedly and writes results into a folder.

    python run_experiment.py --task=imdb --algo=fedavg
    python run_experiment.py --list
    python run_experiment.py --task=mnist --algo=fedavg --data=tfds --preset=paper
    python run_experiment.py --task=mnist --sweep="learning_rate=0.01,0.1;seed=0..2" --jobs=2
    python run_experiment.py --recipe=embracing/table3 --scale=0.1 --only=case5,case7

A run that was stopped, by Ctrl-C or by kill -9, resumes when it is restarted with the same
--output_dir.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from typing import Union

from absl import flags as absl_flags

from tff_partial import runtime
from tff_partial.algorithms import registry
from tff_partial.cli import command_line
from tff_partial.core.fields import Field, Value
from tff_partial.experiments import config, flags
from tff_partial.experiments import run as experiment_run
from tff_partial.experiments.bundled import models, tasks
from tff_partial.recipes import catalog, runner, sweep, sweep_plan, sweep_text
from tff_partial.recipes import plan as recipe_plan
from tff_partial.results import summary

_RECIPE = (
    Field("recipe", str, None, "Run a table of a paper, such as embracing/table3."),
    Field("scale", float, 1.0, "Recipes: shrink rounds and clients; 1 is the paper."),
    Field("reduced", bool, False, "Recipes: settings with which the baseline learns in minutes."),
    Field("only", str, "", "Recipes: rows, such as case5,case7; all by default."),
    Field("sweep", str, None, "Run every combination, as in 'learning_rate=0.01,0.1;seed=0..2'."),
    Field("sweep_metric", str, "final_test_accuracy", f"Sweeps: {', '.join(sweep_plan.METRICS)}."),
    Field("seeds", int, 1, "Runs of each setting or row, from --seed on.", (1, 1000)),
    Field("jobs", int, 1, "Recipes, sweeps, seeds: runs at the same time.", flags.POSITIVE),
    Field("dry_run", bool, False, "List the runs and how long they take; run nothing."),
)
_QUESTIONS = (
    Field("list", bool, False, "List tasks, algorithms, models, partitions and recipes."),
    Field("describe", str, None, "Describe an algorithm: its paper and its flags."),
)
RECIPE_FLAGS = tuple(field.name for field in _RECIPE)


def define_flags(values: absl_flags.FlagValues) -> None:
    """Define every flag; those that a preset supplies have no default."""
    fields = (*flags.DECIDING.values(), *flags.EXECUTING.values(), *_RECIPE, *_QUESTIONS)
    for name, kind, default, doc, bounds in fields:
        if kind is int:
            low, high = bounds or (None, None)
            absl_flags.DEFINE_integer(name, default, doc, low, high, flag_values=values)
        elif kind is float:
            absl_flags.DEFINE_float(name, default, doc, flag_values=values)
        elif kind is bool:
            absl_flags.DEFINE_bool(name, default, doc, flag_values=values)
        else:
            absl_flags.DEFINE_string(name, default, doc, flag_values=values)


def settings_of(values: absl_flags.FlagValues) -> dict[str, Value]:
    """Return the settings of a run that the flags give."""
    names = (*flags.DECIDING, *flags.EXECUTING)
    return {name: values[name].value for name in names if values[name].value is not None}


def recipe_options(values: absl_flags.FlagValues) -> recipe_plan.Options:
    """Return which recipe to run, and how; other flags that are given apply to all of its runs."""
    names = (*flags.DECIDING, *flags.EXECUTING)
    given = {name: values[name].value for name in names if values[name].present}
    if values.reduced and values["scale"].present:
        raise ValueError(f"scale must not be given with reduced. Received: scale={values.scale:g}")
    return recipe_plan.Options(
        values.recipe, values.scale, values.only, values.seeds, given, values.reduced
    )


def sweep_options(values: absl_flags.FlagValues) -> sweep_plan.Options:
    """Return which flags vary, and the others that are given."""
    names = (*flags.DECIDING, *flags.EXECUTING)
    given = {name: values[name].value for name in names if values[name].present}
    swept = {} if values.sweep is None else sweep_text.parse(values.sweep)
    seeds = values.seeds if values["seeds"].present else None
    return sweep_plan.Options(swept, given, seeds, values.sweep_metric)


def _refuse(values: absl_flags.FlagValues, names: Sequence[str], needed: str) -> None:
    """Raise a ValueError if one of these flags is given, which needs others."""
    given = [f"--{name}" for name in names if values[name].present]
    if given:
        raise ValueError(f"{', '.join(names)} must be given with {needed}. Received: {given}")


def list_everything() -> str:
    """Return what --list prints."""
    sections: dict[str, list[str]] = {
        "algorithms (--algo)": [
            f"{name:<20}{algorithm.title}" for name, algorithm in registry.ALGORITHMS.items()
        ],
        "tasks (--task)": [
            f"{name:<20}{task.description}; papers: {', '.join(task.papers)}"
            for name, task in tasks.TASKS.items()
        ],
        "models (--model)": list(models.NAMES),
        "partitions (--partition)": [rule.usage for rule in tasks.partition.RULES.values()],
        "runtimes (--runtime)": list(runtime.NAMES),
        "recipes (--recipe)": [f"{name:<28}{catalog.load(name).title}" for name in catalog.names()],
    }
    return "\n\n".join("\n  ".join([title, *lines]) for title, lines in sections.items())


def describe(values: absl_flags.FlagValues) -> str:
    """Return what --describe prints: what an algorithm is, its paper, and which flags it heeds."""
    given = {name: v for name, v in settings_of(values).items() if name in flags.DECIDING}
    experiment = config.create(**{**given, "algo": values.describe})
    algorithm = experiment.algorithm
    # Citation, pseudo-code and differences from the paper.
    paper = (sys.modules[algorithm.build.__module__].__doc__ or "").strip()
    lines = [f"{algorithm.name}: {algorithm.title}", "", paper, "", "Its own flags:"]
    lines += [f"  --{algorithm.name}_{h.name}: {h.help}" for h in algorithm.hyperparameters]
    lines += ["", f"Shared flags, with --task={experiment.task.name} --preset={experiment.preset}:"]
    has_tiers = "tiers" in algorithm.needs
    heeded = {"tiers": has_tiers, "only_tiers": has_tiers, "capacities": algorithm.tiers_are_rates}
    for setting in flags.SETTINGS:
        value = getattr(experiment.settings, setting)
        if heeded.get(setting, True):
            lines.append(f"  --{setting}" + (" (none)" if value in (None, "") else f"={value}"))
    if experiment.normalization is not None:
        lines.append(f"  --normalization={experiment.normalization}")
    return "\n".join(lines)


def _prepare(arguments: Sequence[str]) -> Union[int, experiment_run.Prepared]:
    """Do what the flags ask for and return the exit code; prepare a run if it is one."""
    values = absl_flags.FlagValues()
    define_flags(values)
    if {"--help", "-help", "-h", "--helpfull"} & set(arguments):
        print(f"{__doc__}\nFlags:\n{values.get_help()}")
        return 0
    rest = values(["run_experiment.py", *arguments])
    if len(rest) > 1:
        raise ValueError(f"arguments must be flags. Received: {' '.join(rest[1:])}")
    if values.list:
        print(list_everything())
        return 0
    if values.describe is not None:
        print(describe(values))
        return 0
    if values.recipe is not None:
        if values.sweep is not None:
            raise ValueError(f"sweep must be given without recipe. Received: {values.recipe}")
        return runner.main(recipe_options(values), values.jobs, values.dry_run)
    _refuse(values, ("scale", "reduced", "only"), "recipe")
    if values.sweep is not None or values["seeds"].present or values.dry_run:
        return sweep.main(sweep_options(values), values.jobs, values.dry_run)
    _refuse(values, ("jobs", "sweep_metric"), "recipe, sweep or seeds")
    return experiment_run.prepare(**settings_of(values))


def run(prepared: experiment_run.Prepared) -> int:
    """Train, write the results and print them; return the exit code."""
    code, stopped = 0, None
    with prepared.lock:
        try:
            experiment_run.train(prepared)
        except experiment_run.STOPPED as error:
            workers = " and other --workers" if prepared.execution.workers else ""
            code, stopped = command_line.explain(error, prepared.folder, workers), error
        result = experiment_run.finish(prepared, stopped)
    if result.summary:
        print(summary.format_table({**result.summary, "results": result.folder}))
    return code


def main(arguments: Sequence[str]) -> int:
    """Run what the flags ask for; return the exit code."""
    return command_line.train(lambda: _prepare(arguments), run)
