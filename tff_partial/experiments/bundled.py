"""Our `models` and `tasks`, even where a folder has a `models` or `tasks` of its own.

They have their own names where Python finds ours by these names. Where it would find others, they
are imported as sub-packages of this module, `tff_partial.experiments.bundled.models`, a name under
which other processes find them too.
"""

from __future__ import annotations

import importlib
import importlib.util
import pathlib
from types import ModuleType
from typing import TYPE_CHECKING, Any, Optional

import numpy as np

from tff_partial.core import checks, own_code
from tff_partial.core.model import Cut, ModelSpec

_FOLDER = pathlib.Path(__file__).resolve().parents[2]
__path__ = [str(_FOLDER)]  # makes packages of that folder importable as parts of this module


def _import(name: str) -> ModuleType:
    spec = importlib.util.find_spec(name)
    found = pathlib.Path(spec.origin).resolve() if spec and spec.origin else None
    is_ours = found == _FOLDER / name / "__init__.py"
    return importlib.import_module(name if is_ours else f"{__name__}.{name}")


if TYPE_CHECKING:
    import models
    import tasks
else:
    models, tasks = _import("models"), _import("tasks")


def create_model(
    name: str,
    input_shape: tuple[int, ...],
    num_classes: int,
    width: float = 1.0,
    normalization: Optional[str] = None,
    input_dtype: str = "",
    **options: Any,
) -> ModelSpec:
    """Return what `models.create` makes of the arguments, with its architecture's tiers.

    `my_module:create` is a model of the user's (`own_models`).

    `input_dtype` is the type of an example as clients hold it, by default that of the model's
    inputs; `options` are further arguments of `ModelSpec`.
    """
    if own_code.is_name(name):
        from tff_partial.experiments import own_models

        return own_models.create_model(
            name, input_shape, num_classes, width, normalization, input_dtype, **options
        )
    architecture = architecture_of(name)
    return ModelSpec(
        lambda: models.create(name, input_shape, num_classes, width, normalization),
        input_shape,
        input_dtype or ("int32" if "token" in architecture.inputs else "float32"),
        cuts={tier: Cut(*cut) for tier, cut in architecture.cuts.items()},
        capacity_batch=architecture.capacity_batch,
        checked=True,  # all architectures, by a test
        **options,
    )


def architecture_of(name: str) -> models.Architecture:
    """Return the declaration of a model, one of ours or the user's.

    Raises:
      ValueError: If there is none of this name.
    """
    if own_code.is_name(name):
        from tff_partial.experiments import own_models

        return own_models.architecture_of(name)
    checks.one_of("model", name, sorted(models.ARCHITECTURES))
    return models.architecture_of(name)


def check_model_fits(name: str, data: tasks.Inputs) -> None:
    """Raise a ValueError if there is no such model, or it does not take the data's examples."""
    is_token = np.issubdtype(data.x_dtype, np.signedinteger)
    kind = "token" if is_token else "image" if len(data.input_shape) == 3 else "feature"
    if kind not in architecture_of(name).inputs:
        raise ValueError(
            f"model must take {kind} inputs of shape {tuple(data.input_shape)}. "
            f"Received: model={name!r}"
        )
