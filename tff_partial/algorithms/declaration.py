"""What an algorithm says of itself: each file of this package ends in an `Algorithm`.

The registry, the flags `--<name>_<hyperparameter>`, `--list`, `--describe` and the common tests
read nothing else.
"""

from __future__ import annotations

import dataclasses
import functools
import inspect
import re
import typing
from typing import Any, Callable, ClassVar, Generic, NamedTuple, Optional, Protocol, TypeVar, Union

from tff_partial import costs
from tff_partial.core.local_training import LocalTraining
from tff_partial.core.model import ModelSpec
from tff_partial.core.types import LearningProcess
from tff_partial.processes.stateful import StatefulProcess
from tff_partial.tiers import Tier

_FLAG_TYPES = (bool, int, float, str)


class HasLocalTraining(Protocol):
    """Hyperparameters of any algorithm: a dataclass with a field `local`."""

    __dataclass_fields__: ClassVar[dict[str, Any]]

    @property
    def local(self) -> LocalTraining:
        """How a client trains."""


Params = TypeVar("Params", bound=HasLocalTraining)


class Hyperparameter(NamedTuple):
    """A field of `Params` that is a flag: its type, its default and its documentation."""

    name: str
    type: type
    default: object
    doc: str

    @property
    def help(self) -> str:
        """Its line of --help."""
        default = "none" if self.default in (None, "") else self.default
        return f"{self.doc} Default: {default}."


@dataclasses.dataclass(frozen=True)
class Defaults:
    """Settings of an algorithm that apply where neither the preset nor the user decides.

    Attributes:
      clip_norm: Gradients are clipped to this norm, unless the preset clips them.
      normalization: Kind of normalisation, for models that have one.
      local_steps: Local steps of a round, where the preset counts epochs.
    """

    clip_norm: Optional[float] = None
    normalization: Optional[str] = None
    local_steps: Optional[int] = None


@dataclasses.dataclass(frozen=True)
class Algorithm(Generic[Params]):
    """The declaration of an algorithm.

    Attributes:
      name: Its name on the command line, in Python and in results.
      title: What it does, in a line.
      paper: Whose settings `--preset=paper` takes, a key of `Task.papers`; '' for the task's
        default.
      params: The frozen dataclass of its hyperparameters. Its field `local` is a `LocalTraining`;
        every other field is a flag, described below 'Attributes:' of the docstring, or in `needs`.
      build: (model, params) -> the process: a `tff.learning.templates.LearningProcess`, or a
        `StatefulProcess` if clients keep something between rounds.
      cost: (model, params, tier) -> what a round costs a client of the tier.
      needs: Fields of `params` that the experiment fills in, so that they are no flags: `tiers`
        (names of the tiers, for an algorithm that treats them differently), `population` (number
        of all clients), `active` (number of clients that keep their local models for some rounds),
        or `server_examples` (number -> that many unlabelled examples of the server).
      tiers_are_rates: Whether a tier is a rate of the model's channels, which may be drawn every
        round.
      next_cohort_trains: Whether the clients of the next round train in this one as well.
      defaults: Settings that are the algorithm's own.
    """

    name: str
    title: str
    paper: str
    params: type[Params]
    build: Callable[[ModelSpec, Params], Union[LearningProcess, StatefulProcess]]
    cost: Callable[[ModelSpec, Params, Tier], costs.ClientCost]
    needs: tuple[str, ...] = ()
    tiers_are_rates: bool = False
    next_cohort_trains: bool = False
    defaults: Defaults = dataclasses.field(default_factory=Defaults)

    def __post_init__(self) -> None:
        unknown = {*self.needs} - {field.name for field in dataclasses.fields(self.params)}
        if unknown:
            raise ValueError(
                f"needs of {self.name} must be fields of its hyperparameters. "
                f"Received: {sorted(unknown)}"
            )
        _ = self.hyperparameters  # checks them

    @functools.cached_property
    def hyperparameters(self) -> tuple[Hyperparameter, ...]:
        """The fields of `params` that are flags.

        Raises:
          ValueError: If one has a type that no flag has, or is not described.
        """
        types, docs = typing.get_type_hints(self.params), _documented(self.params)
        found = []
        for field in dataclasses.fields(self.params):
            if field.name == "local" or field.name in self.needs:
                continue
            kind = _plain_type(types[field.name])
            if kind not in _FLAG_TYPES:
                raise ValueError(
                    "a hyperparameter that is not in needs must be one of "
                    f"{[t.__name__ for t in _FLAG_TYPES]}. "
                    f"Received: {self.name}.{field.name} of type {kind}"
                )
            if field.name not in docs:
                raise ValueError(
                    f"the hyperparameters of {self.name} must describe {field.name} below "
                    f"'Attributes:' of their docstring. Received: {sorted(docs)}"
                )
            found.append(Hyperparameter(field.name, kind, field.default, docs[field.name]))
        return tuple(found)


def whole_model_cost(model: ModelSpec, params: HasLocalTraining, tier: Tier) -> costs.ClientCost:
    """Return what a round costs a client that trains the whole model and sends nothing else."""
    return costs.whole(model, params.local.batch_size)


def _plain_type(hint: Any) -> type:
    """Optional[float] -> float."""
    inner = [arg for arg in typing.get_args(hint) if arg is not type(None)]
    return inner[0] if typing.get_origin(hint) is Union else hint


def _documented(params: type) -> dict[str, str]:
    """Return what the docstrings of a dataclass and its bases say of its fields, by name."""
    found: dict[str, str] = {}
    for base in reversed(params.__mro__):
        _, _, section = inspect.cleandoc(base.__doc__ or "").partition("Attributes:\n")
        for name, text in re.findall(r"^  (\w+): (.*(?:\n    .*)*)", section, re.MULTILINE):
            found[name] = " ".join(text.split())
    return found
