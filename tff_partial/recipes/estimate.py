"""`--dry_run`: a recipe's runs and how long they take on this machine.

    seconds = rounds * clients * steps * step * share + evaluations * evaluation

A step is timed with the run's model, width and batch size, on random examples, with the threads of
the default runtime, and divided by its cores, which train clients side by side. On CPUs its
processor time counts, which other programs hardly change. The share is what a client of the
algorithm costs of a whole model's operations, over the tiers; an evaluation is a forward pass
through the test set, a third of a step for each batch; where local models persist, also two through
all examples of the clients, for the losses. Start, tracing and what lies between clients are not in
it: a real run takes longer, small models by much.
"""

from __future__ import annotations

import dataclasses
import functools
import os
import time

import numpy as np

from tff_partial import runtime
from tff_partial.core import local_training
from tff_partial.core.lazy import tf, tff
from tff_partial.core.model import ModelSpec
from tff_partial.costs import rounds
from tff_partial.experiments import components, config, own
from tff_partial.experiments.bundled import tasks
from tff_partial.layers import parts
from tff_partial.recipes import outcome
from tff_partial.recipes import plan as recipe_plan

_STEPS, _REPEATS = 2, 3
_FORWARD = 1 / 3  # of a step
Timed = dict[tuple[object, ...], tuple[ModelSpec, float]]


def table(plan: recipe_plan.Plan) -> str:
    """Return a line for each run, with its minutes."""
    runtime.configure("in_process")
    lines = [("run", "algorithm", "rounds", "clients", "data", "minutes")]
    total = 0.0
    timed: Timed = {}
    for run in plan.runs:
        settings = run.experiment.settings
        minutes = 0.0 if outcome.is_finished(run) else seconds(run, timed) / 60
        total += minutes
        clients = f"{settings.clients_per_round} of {settings.clients}"
        data = f"{run.experiment.task.name}{' (embedded)' if run.is_embedded else ''}"
        left = f"{minutes:.1f}" if minutes else "finished"
        lines.append((run.name, run.experiment.algo, str(run.rounds), clients, data, left))
    head = f"{plan.recipe.name}: {len(plan.runs)} runs, about {total / 60:.1f} hours here\n"
    return f"{head}\n{outcome.aligned(lines)}"


def seconds(run: recipe_plan.Run, timed: Timed) -> float:
    """Return what a run is estimated to take.

    Args:
      run: The run.
      timed: Models that have been timed, with the seconds of their steps.
    """
    experiment, settings = run.experiment, run.experiment.settings
    data, tests = expected_data(experiment, run.is_embedded)
    kind = (settings.model, settings.width, settings.batch_size, experiment.normalization)
    key = (experiment.task.name, *kind)
    if key not in timed:
        model = components.create_model(experiment, data)
        timed[key] = model, step_seconds(model, settings.batch_size)
    model, step = timed[key]
    params, examples = config.create_params(experiment), data.client_size(0)
    local = params.local
    steps = local.steps or local.epochs * -(-examples // local.batch_size)
    training = settings.clients_per_round * steps * step * _share(experiment, model, data)
    forward = min(tests, settings.eval_examples or tests)
    # The similarity studies, which have a figure, leave the losses out.
    if run.figure is None and getattr(params, "measure_losses", False):
        forward += 2 * settings.clients_per_round * examples
    evaluation = _FORWARD * step * forward / settings.batch_size
    evaluations = -(-run.total_rounds // settings.eval_every)
    return run.total_rounds * training + evaluations * evaluation


def _share(experiment: config.Experiment, model: ModelSpec, data: tasks.FederatedData) -> float:
    """Return what an average client's round costs of one that trains the whole model."""
    experiment = dataclasses.replace(experiment, devices=rounds.Devices())
    accounts = components.create_accounts(experiment, model, data)
    participants = config.participants(experiment)
    ids = np.arange(experiment.settings.clients) if participants is None else participants
    share = np.mean([accounts.seconds(int(i)) for i in ids]) / experiment.devices.full_seconds
    return float(share) * (2 if experiment.algorithm.next_cohort_trains else 1)


def expected_data(
    experiment: config.Experiment, is_embedded: bool
) -> tuple[tasks.FederatedData, int]:
    """Return data of the size and type that a task has, and its number of test examples.

    The data need not be there: all clients have equally many examples, which cannot be asked for.
    """
    task, settings = experiment.task, experiment.settings
    shape, (train, tests), writers = task.input_shape, task.examples, task.writers
    if is_embedded:
        shape, (train, tests), writers = _embedded(experiment.task_name)
    size = _client_size(settings, train, writers)
    nothing = np.zeros([0, *shape], task.x_dtype), np.zeros([0], np.int32)
    data = tasks.FederatedData(
        lambda client: nothing,
        lambda client: size,
        settings.clients,
        nothing,
        task.num_classes,
        "expected",
        not is_embedded,
    )
    return data, tests


@functools.cache
def _embedded(name: str) -> tuple[tuple[int, ...], tuple[int, int], int]:
    """Return the shape of an input and the numbers of training and test examples and writers."""
    load = own.task_of(name)[0].load_embedded
    if load is None:
        raise ValueError(f"task must have embedded data. Received: task={name!r}")
    arrays = load(0)
    writers = 0 if arrays.writers is None else len(np.unique(arrays.writers))
    return arrays.train_x.shape[1:], (len(arrays.train_y), len(arrays.test_y)), writers


def _client_size(settings: tasks.Settings, train: int, writers: int) -> int:
    """Return the number of examples of an average client."""
    name, arguments = tasks.partition.parse(settings.partition)
    if name == "natural":
        return train * (arguments or (1,))[0] // writers
    sized = {"iid": 0, "classes": 1, "bootstrap": 0}.get(name, 9)
    if len(arguments) > sized:
        return int(arguments[sized])
    return max(1, (settings.train_examples or train) // settings.clients)


def step_seconds(model: ModelSpec, batch_size: int) -> float:
    """Return the time of a local step for each client, on all cores."""
    x = np.random.default_rng(0).integers(0, 200, (batch_size, *model.input_shape))
    record = {
        "x": tf.constant(x.astype(model.input_dtype)),
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
    clock = time.perf_counter if tf.config.list_physical_devices("GPU") else time.process_time
    times = []
    for _ in range(_REPEATS):
        started = clock()
        train(weights, record, tf.constant(1e-4))["loss"].numpy()
        times.append(clock() - started)
    return min(times) / _STEPS / (os.cpu_count() or 1)
