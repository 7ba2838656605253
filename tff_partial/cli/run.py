"""Trains a model federatedly and writes what came out into a folder.

    python run_experiment.py --task=imdb --algo=fedavg
    python run_experiment.py --list
    python run_experiment.py --task=mnist --algo=fedavg --data=tfds --preset=paper
    python run_experiment.py --recipe=embracing/table3 --scale=0.1 --only=case5,case7

A run that was stopped, by Ctrl-C or by kill -9, goes on when it is started again with the same
--output_dir.
"""

from __future__ import annotations

import dataclasses
import functools
import os
import sys
import time
import typing
from collections.abc import Sequence
from typing import Any, Optional

from absl import flags

from tff_partial import runtime
from tff_partial.algorithms import registry
from tff_partial.algorithms.declaration import Algorithm
from tff_partial.costs import rounds as accounting
from tff_partial.costs import simulated_time
from tff_partial.experiments import bundled, client_store, config, description
from tff_partial.experiments.bundled import models, tasks
from tff_partial.recipes import catalog, runner
from tff_partial.recipes import plan as recipe_plan
from tff_partial.results import figures, metrics, summary, text_files
from tff_partial.results import folder as results
from tff_partial.system import faults, folder_lock, interrupts

SETTINGS = (
    "model",
    "width",
    "partition",
    "clients",
    "clients_per_round",
    "train_examples",
    "tiers",
    "only_tiers",
    "capacities",
    "rounds",
    "local_steps",
    "local_epochs",
    "batch_size",
    "learning_rate",
    "momentum",
    "weight_decay",
    "weight_decay_on",
    "clip_norm",
    "eval_every",
    "target_accuracy",
)
RECIPE_FLAGS = ("recipe", "scale", "only", "seeds", "jobs", "dry_run")
MOST = 2**31 - 1  # numbers are int32 in graphs
MOST_SEEDS = 1000


def define_flags(values: flags.FlagValues) -> None:
    """Defines every flag; those of the settings have no default, as the preset supplies it."""
    text, number, real = _definers(values)
    text("task", "imdb", f"What to learn: {', '.join(tasks.TASKS)}.")
    text("algo", "fedavg", f"How: {', '.join(registry.ALGORITHMS)}.")
    text("preset", "demo", "demo (small) or paper (the paper's numbers; needs the real data).")
    text("paper", None, "Whose numbers --preset=paper takes, where several papers use the task.")
    text("model", None, f"{', '.join(models.NAMES)}.")
    real("width", None, "Share of the model's channels and units, in (0, 1].")
    text("normalization", None, f"Of the model: {', '.join(models.NORMALIZATIONS)}.")
    flags.DEFINE_bool("augment", False, "Random crops and flips of images.", flag_values=values)
    text("data", "auto", "auto (real where prepared, else embedded), embedded or tfds.")
    text("data_dir", None, "Folder of tensorflow-datasets.")
    text("partition", None, f"How examples go to clients: {', '.join(tasks.partition.RULES)}.")
    number("clients", None, "Clients in the population.")
    number("train_examples", None, "Deals out so many random training examples; default: all.")
    number("clients_per_round", None, "Clients that train in a round.")
    text(
        "tiers",
        None,
        "Clients of each tier, such as strong:16,moderate:16,weak:96; 7:96 removes "
        "seven blocks, 0.3:96 what it takes for a capacity of 0.3; with sub-models, 1/2:96 keeps "
        "half of the channels.",
    )
    text(
        "capacities",
        None,
        "Sub-models: rates of which each selected client draws one every round, such as 1/4, "
        "1/2:0.2,1/16:0.8 or feddse.",
    )
    text("only_tiers", None, "Tiers whose clients take part, such as strong; default: all.")
    number("rounds", None, "Rounds.")
    number("local_steps", None, "Local steps in a round (or --local_epochs).")
    number("local_epochs", None, "Passes over the local data in a round (or --local_steps).")
    number("batch_size", None, "Examples in a local step.")
    text("learning_rate", None, "A number, 0.4,800:0.04 (from round 800) or 0.1*0.998 (decay).")
    real(
        "momentum",
        None,
        "Momentum of local SGD; fresh each round, unless clients keep their models.",
    )
    real("weight_decay", None, "Factor of w added to the gradient.")
    text("weight_decay_on", None, "kernels (before clipping) or all (after it, as in PyTorch).")
    real("clip_norm", None, "Scales gradients to at most this global norm.")
    number("seed", 0, "Of everything random.", least=0, most=2**63 - 1)
    number("eval_every", None, "Rounds between evaluations.")
    number("checkpoint_every", 10, "Rounds between checkpoints.")
    real("target_accuracy", None, "Reports the rounds to this test accuracy; 0: none.")
    text("device_speeds", "1", "Simulated time: speeds such as 0.2,0.5,1, of equal shares.")
    real("round_deadline", None, "Simulated seconds after which later updates are dropped.")
    real("full_model_seconds", 10.0, "Simulated time of a whole model's training at speed 1.")
    text("client_state", "memory", "What clients keep between rounds is in memory or on disk.")
    number("client_state_cache", client_store.CACHE, "disk: clients whose state stays in memory.")
    text("output_dir", None, "Where results go; results/<task>-<algo>-<time> by default.")
    text("runtime", "in_process", f"Where clients run: {', '.join(runtime.NAMES)}.")
    number("client_parallelism", None, "in_process: clients that train at the same time.")
    text("workers", None, "remote: host:port of each worker, separated by commas.")
    flags.DEFINE_bool("list", False, "Lists tasks, algorithms, recipes.", flag_values=values)
    text("describe", None, "Prints what an algorithm is, its paper and its flags.")
    text("recipe", None, "Runs a table of a paper, such as embracing/table3; docs/recipes.md.")
    real("scale", 1.0, "recipe: shrinks rounds and clients; 1 is the paper.")
    text("only", "", "recipe: rows, such as case5,case7; default: all.")
    number("seeds", 1, "recipe: runs of each row, from --seed on.", most=MOST_SEEDS)
    number("jobs", 1, "recipe: runs at the same time.")
    flags.DEFINE_bool(
        "dry_run", False, "recipe: lists the runs with their time.", flag_values=values
    )
    for algorithm in registry.ALGORITHMS.values():
        _define_params(values, algorithm)


def _definers(values: flags.FlagValues) -> tuple[Any, Any, Any]:
    def text(name: str, default: Optional[str], doc: str) -> None:
        flags.DEFINE_string(name, default, doc, flag_values=values)

    def number(
        name: str, default: Optional[int], doc: str, least: int = 1, most: int = MOST
    ) -> None:
        bounds = {"lower_bound": least, "upper_bound": most}
        flags.DEFINE_integer(name, default, doc, **bounds, flag_values=values)

    def real(name: str, default: Optional[float], doc: str) -> None:
        flags.DEFINE_float(name, default, doc, flag_values=values)

    return text, number, real


def _define_params(values: flags.FlagValues, algorithm: Algorithm[Any]) -> None:
    define = {
        bool: flags.DEFINE_bool,
        int: flags.DEFINE_integer,
        float: flags.DEFINE_float,
        str: flags.DEFINE_string,
    }
    for given in algorithm.hyperparameters:
        name = f"{algorithm.name}_{given.name}"
        define[given.type](name, None, given.help, flag_values=values)


def create_experiment(values: flags.FlagValues) -> config.Experiment:
    """The experiment that the flags describe."""
    params = {}
    for algo, algorithm in registry.ALGORITHMS.items():
        for name in (hyperparameter.name for hyperparameter in algorithm.hyperparameters):
            value = values[f"{algo}_{name}"].value
            if value is None:
                continue
            if algo != values.algo:
                raise ValueError(
                    f"--{algo}_{name} must be used with --algo={algo}. "
                    f"Received: --algo={values.algo}"
                )
            params[name] = value
    given = {name: values[name].value for name in SETTINGS}
    return config.create(
        values.task,
        values.algo,
        values.preset,
        values.paper,
        values.normalization,
        values.augment,
        values.seed,
        overrides={name: value for name, value in given.items() if value is not None},
        params=params,
    )


def recipe_options(values: flags.FlagValues) -> recipe_plan.Options:
    """Which recipe, and how; other flags that are given apply to all of its runs."""
    present = {name: values[name].value for name in values if values[name].present}
    others = {name: value for name, value in present.items() if name not in RECIPE_FLAGS}
    return recipe_plan.Options(values.recipe, values.scale, values.only, values.seeds, others)


def build(arguments: Sequence[str]) -> config.Experiment:
    """The experiment that flags such as --task=mnist describe."""
    values = _all_flags()
    for name in values:
        values[name].unparse()
    values(["run_experiment.py", *arguments])
    create_devices(values)
    return create_experiment(values)


def create_devices(values: flags.FlagValues) -> accounting.Devices:
    """The devices that the flags describe."""
    speeds = simulated_time.parse_speeds(values.device_speeds)
    return accounting.Devices(speeds, values.round_deadline, values.full_model_seconds)


def check_execution(values: flags.FlagValues) -> None:
    """Raises a ValueError if a run cannot be executed as the flags ask for."""
    client_store.check(values.client_state, values["client_state_cache"].present)
    runtime.check(values.runtime, _workers(values), values.client_parallelism)


def _workers(values: flags.FlagValues) -> list[str]:
    return values.workers.split(",") if values.workers else []


@functools.cache
def _all_flags() -> flags.FlagValues:
    """Defined once, as a recipe has many runs."""
    values = flags.FlagValues()
    define_flags(values)
    return values


def _check_no_recipe(values: flags.FlagValues) -> None:
    given = [f"--{name}" for name in RECIPE_FLAGS if values[name].present]
    if given:
        raise ValueError(
            f"{', '.join(RECIPE_FLAGS[1:])} must be given with recipe. Received: {given}"
        )


@dataclasses.dataclass(frozen=True)
class Prepared:
    """Everything that can be wrong with a run's input has been checked."""

    experiment: config.Experiment
    data: Any
    model: Any
    accounts: Any
    folder: str
    settings: dict[str, Any]
    execution: dict[str, Any]
    lock: folder_lock.FolderLock


def prepare(values: flags.FlagValues) -> Prepared:
    """Checks the flags, loads the data and makes the results folder, in this order."""
    experiment = create_experiment(values)
    devices = create_devices(values)
    execution = {
        "runtime": values.runtime,
        "workers": _workers(values),
        "client_parallelism": values.client_parallelism,
        "checkpoint_every": values.checkpoint_every,
        "data_dir": values.data_dir,
        "client_state": values.client_state,
        "client_state_cache": values.client_state_cache,
    }
    check_execution(values)
    runtime.configure(values.runtime)
    data = config.load_data(experiment, values.data, values.data_dir, log=_say)
    execution["data_is_real"] = data.real
    bundled.check_model_fits(experiment.settings.model, data)
    if values.runtime != "remote":
        config.check_folders(experiment)
    model = config.create_model(experiment, data)
    accounts = config.create_accounts(experiment, model, data, devices)
    who = config.participants(experiment)
    accounts.check_deadline(
        None if who is None else who.tolist(), bool(experiment.settings.capacities)
    )
    settings = {
        **experiment.identity(data),
        "device_speeds": list(devices.speeds),
        "round_deadline": devices.deadline,
        "full_model_seconds": devices.full_seconds,
    }
    stamp = time.strftime("%Y%m%d-%H%M%S")
    folder = values.output_dir or f"results/{values.task}-{values.algo}-{stamp}"
    lock = results.prepare_folder(folder, settings, execution)
    return Prepared(experiment, data, model, accounts, folder, settings, execution, lock)


def _runtime_options(execution: dict[str, Any]) -> tuple[Any, ...]:
    return tuple(execution[name] for name in ("runtime", "workers", "client_parallelism"))


def run(prepared: Prepared) -> int:
    """Trains, writes the results and prints them; returns the exit code."""
    experiment, folder = prepared.experiment, prepared.folder
    data = prepared.data.description
    _say(f"{experiment.task.name} with {experiment.algo}; data {data}; results in {folder}")
    with prepared.lock:
        try:
            code, diverged = _train_in_runtime(prepared)
            capacity = prepared.accounts.average_capacity()
            finish(folder, {**prepared.settings, "average_capacity": capacity}, data, diverged)
        except client_store.CheckpointError as error:
            _say(f"error: {error}")
            return 2
        except faults.errors() as error:
            # A full disk, a folder that was removed: files are complete, and there may be no room
            # for others.
            _say(f"error: {faults.line(error)}; start again with --output_dir={folder} to resume")
            return 1
    return code


def _train_in_runtime(prepared: Prepared) -> tuple[int, Optional[int]]:
    """Returns the exit code, and the round in which the run diverged if it did."""
    from tff_partial.experiments import divergence, loop

    folder = prepared.folder
    again = f"start again with --output_dir={folder}"
    try:
        context = runtime.set_default(*_runtime_options(prepared.execution))
        try:
            train(prepared)
        finally:
            context.close()
    except loop.Interrupted as stopped:
        _say(f"{stopped}; {again} to go on")
        return 128 + stopped.signal_number, None
    except runtime.WorkersLostError as error:
        others = " and other --workers" if prepared.execution["workers"] else ""
        _say(f"error: {error}; {again}{others} to go on")
        return 1, None
    except divergence.DivergedError as error:
        kept = f"; {folder} keeps the round before" if error.round_num > 1 else ""
        _say(f"error: {error}{kept}")
        return 1, error.round_num
    return 0, None


def train(prepared: Prepared) -> None:
    """Trains and saves the final weights, with the statistics that they are evaluated with."""
    is_remote = prepared.execution["runtime"] == "remote"
    with config.own_folders(prepared.experiment, prepared.folder, is_remote) as experiment:
        _train(prepared, experiment)


def _train(prepared: Prepared, experiment: config.Experiment) -> None:
    from tff_partial.core import evaluation
    from tff_partial.experiments import loop

    data, model = prepared.data, prepared.model
    plan = loop.Plan(
        rounds=experiment.settings.rounds,
        clients_per_round=experiment.settings.clients_per_round,
        seed=experiment.seed,
        eval_every=experiment.settings.eval_every,
        checkpoint_every=prepared.execution["checkpoint_every"],
        participants=config.participants(experiment),
        client_state_cache=(
            prepared.execution["client_state_cache"]
            if prepared.execution["client_state"] == "disk"
            else None
        ),
    )
    batch_size = experiment.settings.batch_size
    is_static = experiment.normalization == "static"
    calibration = config.mixed_examples(data, experiment.seed) if is_static else None
    with ProgressBar(plan.rounds) as bar:
        weights = loop.train(
            config.create_process(
                experiment, model, data, several_workers=len(prepared.execution["workers"]) > 1
            ),
            data,
            evaluation.build(
                model,
                data.test_x,
                data.test_y,
                calibration=calibration,
                calibration_batch=batch_size,
            ),
            plan,
            prepared.folder,
            on_round=bar.on_round,
            tier_of=config.tier_of(experiment),
            account=prepared.accounts.of_round,
        )
    if calibration is not None:
        weights = evaluation.calibrated(model, weights, calibration, batch_size)
    values = [*weights.trainable, *weights.non_trainable]
    results.save_weights(f"{prepared.folder}/weights.npz", model.variable_names, values)


def finish(
    folder: str, settings: dict[str, Any], data: str, diverged_at_round: Optional[int] = None
) -> None:
    """Writes what is made from the metrics, and prints the table."""
    interrupts.end_again_when_interrupted()
    rows = metrics.read(folder)
    if not rows:
        return
    if all(row["train_loss"] is None for row in rows):
        _say("warning: no client was in time in any round; the model is the initial one")
    totals = summary.summarize(settings, data, rows, diverged_at_round)
    text_files.write_json(f"{folder}/summary.json", totals)
    title = f"{settings['task']}, {settings['algo']}, {settings['model']} ({data})"
    figures.plot_curves(f"{folder}/curves.png", title, rows, summary.tier_names(settings))
    print(summary.format_table({**totals, "results": folder}))


class ProgressBar:
    """A tqdm bar with round, loss, accuracy and time left."""

    def __init__(self, rounds: int) -> None:
        self._rounds, self._accuracy = rounds, ""

    def __enter__(self) -> ProgressBar:
        import tqdm

        self._bar = tqdm.tqdm(total=self._rounds, unit="round", dynamic_ncols=True)
        return self

    def __exit__(self, *unused: Any) -> None:
        self._bar.close()

    def on_round(self, done: int, row: typing.Mapping[str, Any]) -> None:
        if not row:
            interrupts.raise_when_interrupted()  # the loop begins: it saves what is done
            # Rounds of an earlier start do not count for the time left.
            self._bar.initial = self._bar.n = done
            self._bar.refresh()
            return
        if row["test_accuracy"] != "":
            self._accuracy = f"{row['test_accuracy']:.4f}"
        loss = "" if row["train_loss"] == "" else f"{float(row['train_loss']):.4f}"
        self._bar.set_postfix_str(f"loss={loss}, accuracy={self._accuracy}", refresh=False)
        self._bar.update()


def list_everything() -> str:
    """What --list prints."""
    lines = ["algorithms (--algo)"]
    lines += [f"  {name:<20}{a.title}" for name, a in registry.ALGORITHMS.items()]
    lines += ["", "tasks (--task)"]
    lines += [
        f"  {name:<20}{t.description}; papers: {', '.join(t.papers)}"
        for name, t in tasks.TASKS.items()
    ]
    lines += ["", "models (--model)", *(f"  {name}" for name in models.NAMES)]
    usages = [rule.usage for rule in tasks.partition.RULES.values()]
    lines += ["", "partitions (--partition)", *(f"  {usage}" for usage in usages)]
    lines += ["", "runtimes (--runtime)", *(f"  {name}" for name in runtime.NAMES)]
    lines += ["", "recipes (--recipe)"]
    lines += [f"  {name:<28}{catalog.load(name).title}" for name in catalog.names()]
    return "\n".join(lines)


def describe(values: flags.FlagValues) -> str:
    """What --describe prints."""
    values.algo = values.describe
    return description.text(create_experiment(values), SETTINGS)


def _say(line: str) -> None:
    print(line, file=sys.stderr)


def main(arguments: Sequence[str]) -> int:
    """Runs what the flags ask for; returns the exit code."""
    # TensorFlow reports its start-up at length; errors still come through as exceptions.
    os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")
    values = flags.FlagValues()
    define_flags(values)
    if {"--help", "-help", "-h", "--helpfull"} & set(arguments):
        print(f"{__doc__}\nFlags:\n{values.get_help()}")
        return 0
    try:
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
            check_execution(values)
            options = recipe_options(values)
            return runner.main(options, build, values.jobs, values.dry_run)
        _check_no_recipe(values)
        prepared = prepare(values)
    except (flags.Error, ValueError) as error:
        _say(f"error: {' '.join(str(error).split())}")  # a value may have several lines
        return 2
    except BrokenPipeError:
        raise  # nobody reads on: `interrupts.run`
    except OSError as error:
        _say(f"error: {error}")
        return 1
    except KeyboardInterrupt:
        return 130
    try:
        return run(prepared)
    except KeyboardInterrupt:
        _say("stopped at once; what follows the last checkpoint is repeated by the next start")
        return 130
