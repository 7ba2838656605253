"""`--dry_run`: a recipe's runs and how long they take on this machine.

    seconds = rounds * (clients * steps * step * share + evaluation)

A step is timed with the run's model, width and batch size, on random examples, with the threads of
the default runtime, and divided by its cores, which train clients side by side. The share is what a
client of the algorithm costs of a whole model's operations, over the tiers; an evaluation is a
forward pass through the test set, a third of a step for each batch. Start, tracing and what lies
between clients are not in it: a real run takes longer, small models by much.
"""

from __future__ import annotations

import dataclasses
import functools
import os
import time
from typing import Any

import numpy as np

from tff_partial.core.lazy import tf, tff
from tff_partial.core.model import ModelSpec
from tff_partial.costs import rounds
from tff_partial.experiments import components, config
from tff_partial.experiments.bundled import tasks
from tff_partial.recipes import outcome
from tff_partial.recipes import plan as recipe_plan

_STEPS, _REPEATS = 2, 3
_FORWARD = 1 / 3  # of a step


def table(plan: recipe_plan.Plan) -> str:
    """Return a table of the runs with their minutes."""
    from tff_partial import runtime

    os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")
    runtime.configure("in_process")
    lines = [("run", "algorithm", "rounds", "clients", "data", "minutes")]
    total, steps = 0.0, StepTimes()
    for run in plan.runs:
        settings = run.experiment.settings
        minutes = 0.0 if outcome.is_finished(run) else seconds(run, steps) / 60
        total += minutes
        clients = f"{settings.clients_per_round} of {settings.clients}"
        data = f"{run.experiment.task.name}{' (embedded)' if run.is_embedded else ''}"
        left = f"{minutes:.1f}" if minutes else "finished"
        lines.append((run.name, run.experiment.algo, str(run.rounds), clients, data, left))
    head = f"{plan.recipe.name}: {len(plan.runs)} runs, about {total / 60:.1f} hours here\n"
    return f"{head}\n{outcome.aligned(lines)}"


class StepTimes:
    """Models and the times of their steps, each made once."""

    def __init__(self) -> None:
        self._found: dict[Any, tuple[ModelSpec, float]] = {}

    def get(self, run: recipe_plan.Run, data: Data) -> tuple[ModelSpec, float]:
        """Return the model of a run and the seconds of a step of it."""
        settings, normalization = run.experiment.settings, run.experiment.normalization
        kind = (settings.model, settings.width, settings.batch_size)
        key = (run.experiment.task.name, normalization, *kind)
        if key not in self._found:
            model = components.create_model(run.experiment, data)
            self._found[key] = model, step_seconds(model, settings.batch_size)
        return self._found[key]


def seconds(run: recipe_plan.Run, times: StepTimes) -> float:
    """Return the estimate for a run."""
    settings, data = run.experiment.settings, Data.of(run.experiment, run.is_embedded)
    model, step = times.get(run, data)
    local = config.create_params(run.experiment).local
    steps = local.steps or local.epochs * -(-data.size // local.batch_size)
    training = settings.clients_per_round * steps * step * _share(run.experiment, model, data)
    evaluation = _FORWARD * step * data.test / settings.batch_size / settings.eval_every
    return run.total_rounds * (training + evaluation)


def _share(experiment: config.Experiment, model: ModelSpec, data: Data) -> float:
    """Return the cost of an average client's round as a share of a whole model's."""
    experiment = dataclasses.replace(experiment, devices=rounds.Devices())
    accounts = components.create_accounts(experiment, model, data)
    participants = config.participants(experiment)
    ids = np.arange(experiment.settings.clients) if participants is None else participants
    share = np.mean([accounts.seconds(int(i)) for i in ids]) / experiment.devices.full_seconds
    return float(share) * (2 if experiment.algorithm.next_cohort_trains else 1)


@dataclasses.dataclass(frozen=True)
class Data:
    """What a task says of data that need not be there.

    Attributes:
      input_shape: Shape of one input.
      num_classes: Number of classes.
      x_dtype: Type of inputs.
      num_clients: The population.
      size: Training examples of an average client.
      test: Test examples.
    """

    input_shape: tuple[int, ...]
    num_classes: int
    x_dtype: str
    num_clients: int
    size: int
    test: int

    @classmethod
    def of(cls, experiment: config.Experiment, is_embedded: bool) -> Data:
        """Return what is known of the data of an experiment."""
        task, settings = experiment.task, experiment.settings
        shape, (train, test), writers = task.input_shape, task.examples, task.writers
        if is_embedded:
            shape, (train, test), writers = _embedded(task.name)
        size = _client_size(settings, train, writers)
        return cls(shape, task.num_classes, task.x_dtype, settings.clients, size, test)

    def client_size(self, client: int) -> int:
        """Return how many examples a client has: all have equally many."""
        return self.size


@functools.cache
def _embedded(name: str) -> tuple[tuple[int, ...], tuple[int, int], int]:
    """Return the shape of an input, numbers of training and test examples, number of writers."""
    load = tasks.TASKS[name].load_embedded
    if load is None:
        raise ValueError(f"task must have embedded data. Received: task={name!r}")
    arrays = load(0)
    writers = 0 if arrays.writers is None else len(np.unique(arrays.writers))
    return arrays.train_x.shape[1:], (len(arrays.train_y), len(arrays.test_y)), writers


def _client_size(settings: tasks.Settings, train: int, writers: int) -> int:
    """Return how many examples an average client has."""
    name, arguments = tasks.partition.parse(settings.partition)
    if name == "natural":
        return train * (arguments or (1,))[0] // writers
    sized = {"iid": 0, "classes": 1, "bootstrap": 0}.get(name, 9)
    if len(arguments) > sized:
        return int(arguments[sized])
    return max(1, (settings.train_examples or train) // settings.clients)


def step_seconds(model: ModelSpec, batch_size: int) -> float:
    """Return the time of a local step for each client, on all cores."""
    from tff_partial.core import local_training
    from tff_partial.layers import parts

    rng = np.random.default_rng(0)
    kind = np.dtype(model.input_dtype)
    x = rng.integers(0, 200, (batch_size, *model.input_shape)).astype(kind)
    record = {
        "x": tf.constant(x),
        "y": tf.zeros([batch_size], tf.int32),
        "seed": tf.constant([0, 0], tf.int32),
    }
    instance = model.instantiate()
    local = local_training.LocalTraining(steps=_STEPS, batch_size=batch_size, learning_rate=1e-4)
    train = tf.function(local_training.build(instance, parts.everything(instance), local))
    weights = tff.learning.models.ModelWeights(
        [tf.constant(v.numpy()) for v in instance.trainable],
        [tf.constant(v.numpy()) for v in instance.statistics],
    )
    train(weights, record, tf.constant(1e-4))
    times = []
    for _ in range(_REPEATS):
        started = time.perf_counter()
        train(weights, record, tf.constant(1e-4))["loss"].numpy()
        times.append(time.perf_counter() - started)
    return min(times) / _STEPS / (os.cpu_count() or 1)
