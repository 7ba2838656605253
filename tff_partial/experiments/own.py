"""A user's own task, model, data and functions in the settings of a run.

Settings are texts: what is handed in as an object, or named as `my_module:fn`, stands in them under
its name and a digest of what it is (`core.own_code`), such as `my_module:create#3f2a9c01`.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from typing import Any, Optional

from tff_partial.core import checks, own_code
from tff_partial.core import clients as populations
from tff_partial.core.objectives import Objective
from tff_partial.core.types import Array
from tff_partial.experiments.bundled import tasks

# Settings whose value may be an object, or its name.
SETTINGS = ("model", "learning_rate", "sampler")
NAME = "own"
_PARTITION = "natural"


def is_own(settings: Mapping[str, object]) -> bool:
    """Return whether a setting is an object of the user's, or names one."""
    plain = (str, int, float, bool, type(None))
    return any(own_code.is_name(v) or not isinstance(v, plain) for v in settings.values())


def named(settings: Mapping[str, object]) -> dict[str, Any]:
    """Return the settings with the names of what is the user's; `task` is left to `task_of`.

    Raises:
      ValueError: In one line, if a name is not found.
    """
    changed = {**settings}
    for name in SETTINGS:
        value = settings.get(name)
        if own_code.is_name(value):
            changed[name] = own_code.register(own_code.load(name, str(value)), str(value))
        elif value is not None and not isinstance(value, (str, int, float)):
            changed[name] = own_code.register(value)
    return changed


def task_of(task: object) -> tuple[tasks.Task, str]:
    """Return a task and its name in config.json, from the task, its name or `my_module:TASK`.

    Raises:
      ValueError: If there is none.
    """
    if isinstance(task, str) and task in tasks.TASKS:
        return tasks.TASKS[task], task
    text = str(task) if own_code.is_name(task) else ""
    found = own_code.load("task", text) if text else task
    if not isinstance(found, tasks.Task):
        known = f"one of {sorted(tasks.TASKS)} or my_module:TASK, a tasks.Task"
        hint = checks.did_you_mean(task, tasks.TASKS) if isinstance(task, str) else ""
        raise ValueError(f"task must be {known}. Received: task={task!r}{hint}")
    if found.name == NAME:
        return found, _name_with_clients(found)
    code = [getattr(found, name) for name in ("loss", "metrics", "preprocess", "augment")]
    code += [getattr(found, name) for name in ("load_embedded", "load_real", "generate")]
    digest = own_code.name_of(code).partition("#")[2]
    return found, f"{text.partition('#')[0] or found.name}#{digest}"


def _name_with_clients(task: tasks.Task) -> str:
    """Return the name of a task that `create_task` has made, with a digest of its functions."""
    if getattr(task.generate, "__module__", "") != __name__:
        raise ValueError(f"name of a task must not be {NAME!r}, which means data given to run")
    functions = [value for value in (task.loss, *task.metrics) if callable(value)]
    return NAME + (f"#{own_code.name_of(functions).partition('#')[2]}" if functions else "")


def create_task(
    clients: object,
    test: object,
    num_classes: Optional[int] = None,
    loss: Optional[Objective] = None,
    metrics: Sequence[Objective] = ("accuracy",),
) -> tasks.Task:
    """Return a task of clients, what `tff_partial.clients` returns or takes, and test data.

    Raises:
      ValueError: If they are no clients, or there are no test data.
    """
    population = populations.create(clients)
    if test is None:
        raise ValueError("test must be given with clients: (x, y) or a tf.data.Dataset")
    x, y = populations.examples_of(test, population.label)
    if not len(y):
        raise ValueError("test must have at least one example. Received: 0 examples")
    classes = max(int(y.max()) + 1, 2) if num_classes is None else num_classes

    _check_labels(y, classes, "the test")

    def client(number: int) -> tuple[Array, Array]:
        own_x, own_y = population.client(number)
        whose = f"client {population.ids[number]!r}"
        if (own_x.shape[1:], own_x.dtype) != (x.shape[1:], x.dtype):
            raise ValueError(
                f"examples must be like those of the test, {list(x.shape[1:])} of {x.dtype}. "
                f"Received: {list(own_x.shape[1:])} of {own_x.dtype}, {whose}"
            )
        _check_labels(own_y, classes, whose)
        return own_x, own_y

    client(0)  # the others when they are loaded

    def generate(partition: str, count: int, seed: int) -> tasks.FederatedData:
        if (partition, count) != (_PARTITION, len(population)):
            raise ValueError(
                "partition and number of clients must not be given with clients of your own. "
                f"Received: partition={partition!r}, {count} clients"
            )
        return tasks.FederatedData(
            client,
            population.client_size,
            len(population),
            (x, y),
            classes,
            # With a digest, so that a run is not resumed with other data.
            f"own: {len(population):,} clients, {len(y):,} test examples ({_digest(x, y)})",
            True,
            population.mean_size,
        )

    settings = tasks.Settings(
        model="mlp_200",
        partition=_PARTITION,
        clients=len(population),
        clients_per_round=min(len(population), 10),
        rounds=20,
        local_epochs=1,
        batch_size=32,
        learning_rate="0.1",
        source="No paper; data of the user.",
    )
    return tasks.Task(
        name=NAME,
        description="data of the user",
        num_classes=classes,
        input_shape=tuple(x.shape[1:]),
        x_dtype=str(x.dtype),
        loss=loss,
        metrics=tuple(metrics),
        demo=settings,
        papers={NAME: settings},
        default_paper=NAME,
        preprocess=_as_it_is,
        generate=generate,
    )


def _check_labels(y: Array, classes: int, whose: str) -> None:
    if len(y) and not 0 <= y.min() <= y.max() < classes:
        raise ValueError(
            f"labels must be from 0 to {classes - 1}; num_classes says so where the test lacks "
            f"some. Received: {y.min()} to {y.max()} of {whose}"
        )


def _digest(x: Array, y: Array) -> str:
    """Return a digest of examples and labels, whatever their order."""
    each = sorted(hashlib.sha256(a.tobytes() + b.tobytes()).digest() for a, b in zip(x, y))
    return hashlib.sha256(b"".join(each)).hexdigest()[:8]


def _as_it_is(x: Any) -> Any:
    return x
