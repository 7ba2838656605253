"""What an algorithm says of itself: each file of this package ends in an `Algorithm`.

The registry, the flags `--<name>_<hyperparameter>`, `--list`, `--describe` and the common tests
read nothing else.
"""

from __future__ import annotations

import dataclasses
import functools
from collections.abc import Mapping
from typing import Any, Callable, ClassVar, Generic, Optional, Protocol, TypeVar, Union

from tff_partial import costs
from tff_partial.core.fields import Field, Value, fields_of
from tff_partial.core.local_training import LocalTraining
from tff_partial.core.model import ModelSpec
from tff_partial.core.types import LearningProcess
from tff_partial.processes.deployment import Deployment
from tff_partial.processes.stateful import StatefulProcess
from tff_partial.submodels import selection
from tff_partial.tiers import Tier


class HasLocalTraining(Protocol):
    """Hyperparameters of any algorithm: a dataclass with a field `local`."""

    __dataclass_fields__: ClassVar[dict[str, Any]]

    @property
    def local(self) -> LocalTraining:
        """How a client trains."""


Params = TypeVar("Params", bound=HasLocalTraining)


@dataclasses.dataclass(frozen=True)
class Defaults:
    """Settings of an algorithm that apply where neither the preset nor the user decides.

    Attributes:
      clip_norm: Gradients are clipped to this norm, unless the preset clips them.
      normalization: Kind of normalisation, for models that have one.
      local_steps: Local steps of a round, where the preset counts epochs.
      demo: Hyperparameters in demo presets, whose runs are short.
    """

    clip_norm: Optional[float] = None
    normalization: Optional[str] = None
    local_steps: Optional[int] = None
    demo: Mapping[str, Value] = dataclasses.field(default_factory=dict)


@dataclasses.dataclass(frozen=True)
class Algorithm(Generic[Params]):
    """The declaration of an algorithm.

    Attributes:
      name: Its name on the command line, in Python and in results.
      title: What it does, in a line.
      paper: Whose settings `--preset=paper` takes, a key of `Task.papers`; '' for the task's
        default.
      params: The frozen dataclass of its hyperparameters. Its field `local` is a `LocalTraining`,
        `server`, if it has one, a `ServerOptimizer`; every other field is a flag, described below
        'Attributes:' of the docstring, or in `needs`.
      build: (model, params, aggregator) -> the process: a `tff.learning.templates.LearningProcess`,
        or a `StatefulProcess` if clients keep something between rounds. Without an argument
        `aggregator` it is the mean only.
      cost: (model, params, tier) -> what a round costs a client of the tier.
      needs: Fields of `params` that the experiment fills in, so that they are no flags: `tiers`
        (names of the tiers, for an algorithm that treats them differently), `population` (number
        of all clients), `active` (number of clients that keep their local models for some rounds),
        or `server_examples` (number -> that many unlabelled examples of the server).
      rule: (model, params) -> how the channels of a sub-model are chosen (submodels.selection);
        None where clients of every tier deploy the whole model, or `deployed` says what.
      deployed: (model, params, tier) -> what clients of the tier deploy, where no rule says it.
      tiers_are_rates: Whether a tier is a rate of the model's channels, which may be drawn every
        round.
      next_cohort_trains: Whether the clients of the next round train in this one as well.
      refused: Aggregation (`core.aggregators.NAMES`) that `build` refuses -> the reason.
      refused_with: params -> those that it refuses besides with these hyperparameters.
      defaults: Settings that are the algorithm's own.
    """

    name: str
    title: str
    paper: str
    params: type[Params]
    build: Callable[..., Union[LearningProcess, StatefulProcess]]
    cost: Callable[[ModelSpec, Params, Tier], costs.ClientCost]
    needs: tuple[str, ...] = ()
    rule: Optional[Callable[[ModelSpec, Params], Optional[selection.CreateRule]]] = None
    deployed: Optional[Callable[[ModelSpec, Params, Tier], Optional[Deployment]]] = None
    tiers_are_rates: bool = False
    next_cohort_trains: bool = False
    refused: Mapping[str, str] = dataclasses.field(default_factory=dict)
    refused_with: Callable[[Params], Mapping[str, str]] = lambda params: {}
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
    def hyperparameters(self) -> tuple[Field, ...]:
        """The fields of `params` that are flags.

        Raises:
          ValueError: If one has a type that no flag has, or is not described.
        """
        return fields_of(self.params, without=("local", "server", *self.needs))


def whole_model_cost(model: ModelSpec, params: HasLocalTraining, tier: Tier) -> costs.ClientCost:
    """Return what a round costs a client that trains the whole model and sends nothing else."""
    return costs.whole(model, params.local.batch_size)
