"""A run from its settings to its results: prepare, train, finish.

    result = tff_partial.run(task="imdb", algo="embracing", rounds=30)

is what `python run_experiment.py --task=imdb --algo=embracing --rounds=30` does.
"""

from __future__ import annotations

import contextlib
import dataclasses
import functools
import math
import os
import sys
import tempfile
import time
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Optional, cast

import numpy as np

from tff_partial import runtime
from tff_partial.core import evaluation, own_code
from tff_partial.core.model import ModelSpec
from tff_partial.core.objectives import Objective
from tff_partial.core.types import Array
from tff_partial.costs.rounds import Accounts
from tff_partial.experiments import (
    callbacks,
    components,
    config,
    flags,
    loop,
    own,
    privacy,
    trace_cache,
    trackers,
)
from tff_partial.experiments.bundled import tasks
from tff_partial.experiments.config import Experiment
from tff_partial.experiments.divergence import DivergedError
from tff_partial.experiments.execution import Execution
from tff_partial.results import figures, metrics, summary, text_files
from tff_partial.results import folder as results
from tff_partial.results.checks import Json
from tff_partial.results.schema import MetricsRow
from tff_partial.system import folder_lock, interrupts, scratch_folders

# What ends a run before its last round; its files are complete up to then.
STOPPED = (loop.Interrupted, DivergedError, runtime.WorkersLostError)
SECURE_RUNTIMES = ("in_process", "ray")


@dataclasses.dataclass(frozen=True)
class Prepared:
    """A run whose input has been checked; the lock on its folder is closed when it ends."""

    experiment: Experiment
    execution: Execution
    data: tasks.FederatedData
    model: ModelSpec
    accounts: Accounts
    folder: str
    settings: Mapping[str, Json]
    lock: folder_lock.FolderLock


@dataclasses.dataclass(frozen=True)
class Result:
    """Results of a run, as they are in its folder.

    Attributes:
      folder: The folder.
      summary: What summary.json holds; empty if no round was run.
      rows: The rows of metrics.csv, None where a cell is empty.
    """

    folder: str
    summary: Mapping[str, Json]
    rows: list[MetricsRow]

    @property
    def weights(self) -> dict[str, Array]:
        """The final weights by name."""
        with np.load(os.path.join(self.folder, "weights.npz")) as arrays:
            return {name: arrays[name] for name in arrays.files}


def run(
    task: object = None,
    algo: str = "fedavg",
    *,
    model: object = None,
    clients: object = None,
    test: object = None,
    num_classes: Optional[int] = None,
    loss: Optional[Objective] = None,
    metrics: Sequence[Objective] = (),
    **settings: object,
) -> Result:
    """Train a model federatedly and write results into a folder.

        run(task="imdb", algo="embracing", rounds=30)
        run(model=create, clients=[(x, y), ...], test=(x, y), algo="heterofl", tiers="1:5,1/2:5")

    Args:
      task: What to learn: a name, imdb by default, `my_module:TASK` or a `tasks.Task`.
      algo: The algorithm.
      model: Its name, a function that creates a Keras model, or a `ModelSpec`; that of the task's
        preset by default.
      clients: In place of a task, what `tff_partial.clients` returns or takes; or their number.
      test: With clients of your own, test data: (x, y), a `tf.data.Dataset` or a `ClientData`.
      num_classes: With clients of your own, the number of classes; by default that of the labels of
        the test data.
      loss: With clients of your own, the loss where the model says none: a name of
        `objectives.LOSSES`, or a function of labels [n] and logits -> a value for each example.
      metrics: With clients of your own, what is reported beside `accuracy`, likewise.
      **settings: Any flag of run_experiment.py by its name, hyperparameters included, such as
        `rounds=30`, `embracing_head_statistics='batch'` or `output_dir='results/mine'`. A run
        with the `output_dir` of one that was stopped resumes it, and with more rounds continues
        one that is finished. `learning_rate` and `sampler` may be functions.

    Raises:
      ValueError: If a setting is wrong, in one line.
      Interrupted: On SIGINT or SIGTERM; results up to then are in the folder.
      DivergedError: If the loss or the weights are not finite; likewise.
      WorkersLostError: If no worker is left; likewise.
    """
    if clients is not None and not isinstance(clients, (int, str)):
        if task is not None:
            raise ValueError(f"task must not be given with clients. Received: task={task!r}")
        task = own.create_task(clients, test, num_classes, loss, ("accuracy", *metrics))
    elif test is not None or num_classes is not None or loss is not None or metrics:
        raise ValueError(
            "test, num_classes, loss and metrics must be given with clients of your own"
        )
    else:
        settings["clients"] = clients
    prepared, stopped = prepare(task=task, algo=algo, model=model, **settings), None
    with prepared.lock:
        try:
            train(prepared)
        except STOPPED as error:
            stopped = error
        result = finish(prepared, stopped)
    if stopped is not None:
        raise stopped
    return result


def prepare(task: object = None, **settings: object) -> Prepared:
    """Check the settings, load the data and make the results folder, in this order."""
    given = {name: value for name, value in settings.items() if name in flags.EXECUTING}
    places = flags.check(given, flags.EXECUTING)
    deciding: dict[str, Any] = {n: v for n, v in settings.items() if n not in given}
    execution = Execution(**{name: places[name] for name in flags.EXECUTION})
    if own.is_own({**deciding, "task": task}):  # a user's module may use TensorFlow
        runtime.configure(execution.runtime, execution.device_names)
    chosen, _ = own.task_of("imdb" if task is None else task)
    is_real = chosen.has_real(places["data"], places["data_dir"])
    experiment = config.create(task, is_real=is_real, **deciding)
    if experiment.settings.aggregation == "secure" and execution.runtime not in SECURE_RUNTIMES:
        raise ValueError(
            f"runtime must be {' or '.join(SECURE_RUNTIMES)} with aggregation='secure': TFF's "
            f"worker has no secure sum. Received: runtime={execution.runtime!r}"
        )
    runtime.configure(execution.runtime, execution.device_names)
    data = components.load_data(experiment, places["data"], execution.data_dir, log=say)
    if not execution.is_elsewhere:
        _check_folders(experiment)
    model = components.create_model(experiment, data)
    accounts = components.create_accounts(experiment, model, data)
    identity = {
        **experiment.identity(data),
        "device_speeds": list(experiment.devices.speeds),
        "round_deadline": experiment.devices.deadline,
        "full_model_seconds": experiment.devices.full_seconds,
    }
    folder = places["output_dir"] or new_folder(f"{experiment.task.name}-{experiment.algo}")
    known = {
        "data_is_real": data.real,
        "paper": experiment.paper,
        "tier_costs": accounts.figures(),
    }
    lock = results.prepare_folder(folder, identity, {**execution.as_config(), **known})
    return Prepared(experiment, execution, data, model, accounts, folder, identity, lock)


def new_folder(name: str) -> str:
    """Return the default folder of a run that starts now."""
    return f"results/{name}-{time.strftime('%Y%m%d-%H%M%S')}"


def train(prepared: Prepared) -> None:
    """Train and save the final weights, with the statistics that they are evaluated with."""
    task, data = prepared.experiment.task.name, prepared.data.description
    say(f"{task} with {prepared.experiment.algo}; data {data}; results in {prepared.folder}")
    for line in components.tier_lines(prepared.experiment, prepared.model, prepared.accounts):
        say(line)
    with prepared.execution.installed() as context, _own_folders(prepared) as experiment:
        spread = None
        if isinstance(context, runtime.HasStatus):
            say(context.status())
        if prepared.execution.runtime == "ray":
            spread = cast(runtime.SpreadContext, context)
            for note in spread.notes(_bytes_of_clients(experiment, prepared.data)):
                say(note)
        _train(prepared, experiment, spread)


def _bytes_of_clients(experiment: Experiment, data: tasks.FederatedData) -> int:
    """Return about what the data of all clients take that can be drawn."""
    drawn = config.participants(experiment)
    clients = data.num_clients if drawn is None else len(drawn)
    example = math.prod(data.input_shape) * data.x_dtype.itemsize + np.dtype(np.int32).itemsize
    return int(clients * data.mean_size() * example)


def _train(
    prepared: Prepared, experiment: Experiment, spread: Optional[runtime.SpreadContext]
) -> None:
    data, model, settings = prepared.data, prepared.model, experiment.settings
    accounting = privacy.accounting(settings)
    is_static = experiment.normalization == "static"
    calibration = config.mixed_examples(data, experiment.seed) if is_static else None
    watching = [
        callbacks.Costs(prepared.accounts, tells=accounting is None),
        *([] if accounting is None else [callbacks.Epsilon(accounting)]),
        callbacks.TensorBoard(prepared.folder),
        *_trackers(prepared),
        *([] if spread is None else [callbacks.Places(spread)]),
        callbacks.ProgressBar(settings.rounds, place=spread.place if spread else None),
    ]
    evaluate = components.create_evaluation(experiment, model, data, calibration)
    sample = evaluation.draw_sample(len(data.test_y), settings.eval_examples, experiment.seed)
    store = trace_cache.create(prepared.execution.trace_cache, experiment, data)
    several = prepared.execution.several_workers
    weights = loop.train(
        components.create_process(experiment, model, data, several, store),
        data,
        evaluate,
        _loop_options(prepared, experiment),
        prepared.folder,
        watching,
        config.tier_of(experiment),
        None if sample is None else functools.partial(evaluate, examples=sample),
    )
    if calibration is not None:
        weights = evaluation.calibrated(model, weights, calibration, settings.batch_size)
    values = [*weights.trainable, *weights.non_trainable]
    results.save_weights(f"{prepared.folder}/weights.npz", model.variable_names, values)


def _trackers(prepared: Prepared) -> list[trackers.Tracking]:
    """Return the tracker that is asked for, if one is."""
    text = prepared.execution.tracker
    return [trackers.Tracking(text, prepared.folder, prepared.settings)] if text else []


def _loop_options(prepared: Prepared, experiment: Experiment) -> loop.LoopOptions:
    settings = experiment.settings
    return loop.LoopOptions(
        settings.rounds,
        settings.clients_per_round,
        experiment.seed,
        settings.eval_every,
        prepared.execution.checkpoint_every,
        config.participants(experiment),
        prepared.execution.cache,
        sampler=own_code.load("sampler", settings.sampler) if settings.sampler else None,
        sampling=settings.sampling,
    )


def finish(prepared: Prepared, stopped: Optional[Exception] = None) -> Result:
    """Write what is made from the metrics.

    Args:
      prepared: The run.
      stopped: What ended it before the last round, if anything did.
    """
    interrupts.end_again_when_interrupted()
    folder, data = prepared.folder, prepared.data.description
    settings = {**prepared.settings, "average_capacity": prepared.accounts.average_capacity()}
    rows = metrics.read(folder)
    if not rows:
        return Result(folder, {}, [])
    is_private = settings.get("aggregation") == "dp"  # training reports nothing then
    if not is_private and all(row["train_loss"] is None for row in rows):
        say("warning: no client was in time in any round; the model is the initial one")
    diverged_at = stopped.round_num if isinstance(stopped, DivergedError) else None
    totals = summary.summarize(settings, data, rows, diverged_at)
    text_files.write_json(f"{folder}/summary.json", totals)
    title = f"{settings['task']}, {settings['algo']}, {settings['model']} ({data})"
    figures.plot_curves(f"{folder}/curves.png", title, rows, summary.tier_names(settings))
    return Result(folder, totals, rows)


def _shared_folders(experiment: Experiment) -> dict[str, str]:
    """Return the folders that hyperparameters `..._dir` name."""
    named = {n: str(path) for n, path in experiment.params.items() if n.endswith("_dir")}
    return {name: path for name, path in named.items() if path}


def _check_folders(experiment: Experiment) -> None:
    """Make the folders that hyperparameters name; raise a ValueError if one cannot be written."""
    for name, path in _shared_folders(experiment).items():
        try:
            os.makedirs(path, exist_ok=True)
            with tempfile.TemporaryFile(dir=path):
                pass
        except OSError as error:
            raise ValueError(
                f"{name} must be a folder that can be written. Received: {error}"
            ) from error


@contextlib.contextmanager
def _own_folders(prepared: Prepared) -> Iterator[Experiment]:
    """Give the run folders of its own inside those that it shares with other runs.

    Folders on other hosts are only named; the workers make them.
    """
    experiment, own = prepared.experiment, dict[str, str]()
    with contextlib.ExitStack() as stack:
        for name, parent in _shared_folders(experiment).items():
            own[name] = scratch_folders.name_of(parent, prepared.folder)
            if not prepared.execution.is_elsewhere:
                stack.enter_context(scratch_folders.own(parent, prepared.folder))
        yield dataclasses.replace(experiment, params={**experiment.params, **own})


def say(line: str) -> None:
    """Print a line for the user."""
    print(line, file=sys.stderr)
