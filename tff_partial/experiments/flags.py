"""Every setting of a run: its name, type, default and meaning.

`run_experiment.py --rounds=30`, `tff_partial.run(rounds=30)` and `rounds = 30` in a recipe are the
same. The command line, the Python interface and recipes read these declarations. A setting without
a default takes that of the task's preset; a hyperparameter `<algo>_<name>` that of its algorithm.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from tff_partial.algorithms import registry
from tff_partial.core import checks
from tff_partial.core.fields import Field, fields_of
from tff_partial.experiments.bundled import models, tasks
from tff_partial.experiments.execution import Execution

LARGEST = 2**31 - 1  # numbers are int32 in graphs
POSITIVE = (1, LARGEST)


def _of_dataclass(described: type, without: tuple[str, ...] = ()) -> list[Field]:
    """Return the fields of a dataclass as flags; its integers are positive."""
    fields = fields_of(described, without)
    return [f._replace(bounds=POSITIVE if f.type is int else None) for f in fields]


def _names_in(known: Iterable[str]) -> str:
    return ", ".join(known)


_CHOICES = [
    Field("task", str, "imdb", f"What to learn: {_names_in(tasks.TASKS)} or my_module:TASK."),
    Field("algo", str, "fedavg", f"The algorithm: {_names_in(registry.ALGORITHMS)}."),
    Field("preset", str, "demo", "demo (small) or paper (the paper's numbers; needs real data)."),
    Field("paper", str, None, "Whose numbers --preset=paper takes, if several use the task."),
    Field("normalization", str, None, f"Of the model: {_names_in(models.NORMALIZATIONS)}."),
    Field("augment", bool, False, "Crop and flip images at random."),
    Field("seed", int, 0, "Random seed.", (0, 2**63 - 1)),
]
_SETTINGS = [
    f._replace(default=None, doc=f"The model: {_names_in(models.NAMES)} or my_module:create.")
    if f.name == "model"
    else f._replace(default=None)
    for f in _of_dataclass(tasks.Settings, without=("source",))
]
_DEVICES = [
    Field("device_speeds", str, "1", "Simulated time: speeds of equal shares, such as 0.2,0.5,1."),
    Field("round_deadline", float, None, "Simulated seconds after which updates are dropped."),
    Field("full_model_seconds", float, 10.0, "Simulated time of a whole model at speed 1."),
]
_PLACES = [
    Field("data", str, "auto", "auto (real where prepared, else embedded), embedded or tfds."),
    Field("output_dir", str, None, "Folder of results; results/<task>-<algo>-<time> by default."),
]
_EXECUTION = _of_dataclass(Execution)
_HYPERPARAMETERS = {
    f"{algo}_{each.name}": (algo, each._replace(name=f"{algo}_{each.name}"))
    for algo, algorithm in registry.ALGORITHMS.items()
    for each in algorithm.hyperparameters
}


SETTINGS, DEVICES, EXECUTION = (
    tuple(field.name for field in fields) for fields in (_SETTINGS, _DEVICES, _EXECUTION)
)
OWNERS = {name: algo for name, (algo, _) in _HYPERPARAMETERS.items()}
"""Flag of a hyperparameter -> its algorithm."""

DECIDING: dict[str, Field] = {
    **{field.name: field for field in (*_CHOICES, *_SETTINGS, *_DEVICES)},
    **{n: f._replace(default=None, doc=f.help) for n, (_, f) in _HYPERPARAMETERS.items()},
}
"""What decides results."""

EXECUTING: dict[str, Field] = {field.name: field for field in (*_EXECUTION, *_PLACES)}
"""Where and how it is done."""


def check(given: Mapping[str, object], known: Mapping[str, Field]) -> dict[str, Any]:
    """Return the values of all these flags, defaults where nothing or None is given.

    Raises:
      ValueError: If a name is unknown, or a value has the wrong type.
    """
    unknown = sorted({*given} - {*known})
    if unknown:
        meant = checks.did_you_mean(unknown[0], (*DECIDING, *EXECUTING))
        raise ValueError(f"settings must be flags of run_experiment.py. Received: {unknown}{meant}")
    return {
        name: field.default if given.get(name) is None else field.check(given[name])
        for name, field in known.items()
    }
