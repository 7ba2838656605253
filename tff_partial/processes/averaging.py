"""The process whose clients keep their local models and average parts of them as they train.

    for each segment of the round (steps, subset):
        every active client i:  x_i <- that many steps of SGD from x_i
        u <- mean over the active clients of the subset of x_i
        every active client i:  the subset of x_i <- u

Partial averaging has a segment for each of the tau steps of a round, periodic averaging one of tau
steps whose subset is the whole model. A client's state is its local model, its momentum and its
batch-norm statistics; only parameters are averaged while training. The model that is evaluated is
the mean of the local models (and of their statistics) after the round.

When other clients become active, the first of them takes over from the first of those that were
active before, the second from the second, and so on (`AveragingProcess.hand_over`).

`averaging_round` has the round, as one TFF computation or in steps for several remote workers.
"""

from __future__ import annotations

import copy
import dataclasses
import functools
from collections import OrderedDict
from collections.abc import Sequence
from typing import ClassVar, Optional

import numpy as np

from tff_partial.core import checks, local_optimizers
from tff_partial.core.aggregators import AggregatorLike, as_aggregator
from tff_partial.core.local_training import LocalTraining
from tff_partial.core.model import ModelSpec
from tff_partial.core.types import Array, ServerState, Structure
from tff_partial.processes import averaging_round, stateful
from tff_partial.processes.averaging_computations import Setting
from tff_partial.processes.averaging_rules import Rules

DESIGNS = (1, 2)
REFUSED = dict.fromkeys(
    ("robust", "secure", "dp", "given"),
    "clients send parts of their models, not updates, and the smallest of their losses",
)
"""Aggregations of local models that are refused, and why."""


@dataclasses.dataclass(frozen=True)
class AveragingParams(stateful.StatefulParams):
    """Hyperparameters of algorithms whose local models persist.

    Attributes:
      local: How a client trains; its steps are the interval tau.
      rounds_active: After so many rounds other clients become active; 0: never. By default 1, 10
        for partial averaging, unless all clients are active anyway: then never.
      design: Clients that become active take over the average (1) or a local model each (2).
      reset_momentum: Whether clients that become active start without momentum, instead of taking
        over that of the client before them.
      measure_steps: Whether the discrepancy is measured after every local step of a round, as
        columns `discrepancy_1`, `discrepancy_2`, ...; the model stays the same.
      measure_losses: Whether evaluated rounds measure the losses of the local models and of the
        global one on all examples of the active clients; the model stays the same.
      active: Number of clients that are active at a time.
    """

    local: LocalTraining = dataclasses.field(default_factory=lambda: LocalTraining(steps=10))
    rounds_active: Optional[int] = None
    design: int = 2
    reset_momentum: bool = False
    measure_steps: bool = False
    measure_losses: bool = True
    active: Optional[int] = None
    DEFAULT_ROUNDS_ACTIVE: ClassVar[int] = 1
    NEEDS_SUM: ClassVar[str] = "as averages go into the clients' own models"

    def __post_init__(self) -> None:
        super().__post_init__()
        self.interval()
        if self.rounds_active is not None and self.rounds_active < 0:
            raise ValueError(
                f"rounds_active must not be negative. Received: rounds_active={self.rounds_active}"
            )
        checks.one_of("design", self.design, DESIGNS)
        if not isinstance(self.local.optimizer, str):
            raise ValueError(
                f"optimizer must be one of {', '.join(local_optimizers.NAMES)} where clients keep "
                f"their models and its state. Received: optimizer={self.local.optimizer!r}"
            )
        if self.local.record_precision != "float32":
            raise ValueError(
                "record_precision must be float32 where clients keep their models. "
                f"Received: record_precision={self.local.record_precision!r}"
            )

    def period(self) -> int:
        """Return after how many rounds other clients become active; 0: never."""
        if self.rounds_active is not None:
            return self.rounds_active
        everybody = self.active is None or self.active == self.population
        return 0 if everybody else self.DEFAULT_ROUNDS_ACTIVE

    def interval(self) -> int:
        """Return tau, the number of local steps of a round."""
        if self.local.steps is None:
            raise ValueError(
                "averaging must have local steps, its interval. "
                f"Received: epochs={self.local.epochs}"
            )
        return self.local.steps


@dataclasses.dataclass(frozen=True)
class ProximalParams(AveragingParams):
    """The same with FedProx's gradient.

    Attributes:
      mu: Weight of FedProx's term, which pulls each parameter to its last average.
    """

    mu: float = 0.0

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.mu < 0:
            raise ValueError(f"mu must not be negative. Received: mu={self.mu}")


class AveragingProcess(stateful.StatefulProcess):
    """A `StatefulProcess` whose clients stay active for some rounds.

    `next` also returns `losses` among its metrics: the smallest and the mean loss of the local
    models before the last average of the round and that of the global one, each on all examples
    of the clients. They are 0 unless `client_states` said that clients are to be measured, and
    missing without `measure_losses`. With `measure_steps` there are `discrepancies`, after every
    step.

    Attributes:
      rounds_active: After so many rounds other clients become active; 0: never.
    """

    def __init__(self, steps: averaging_round.Computations, params: AveragingParams) -> None:
        next_fn = averaging_round.as_computation(steps)
        super().__init__(steps.initialize, next_fn, steps.setting.initial_client_state, {})
        self._steps, self._params = steps, params
        self.rounds_active = params.period()

    def in_steps(self) -> AveragingProcess:
        """Return the process in the form for several remote workers; `next` is no computation."""
        process = copy.copy(self)
        process.next = functools.partial(averaging_round.in_steps, self._steps)
        return process

    def client_states(
        self,
        ids: Sequence[int],
        selected: Sequence[bool],
        values: Sequence[Structure],
        measured: bool = False,
    ) -> list[Structure]:
        states = super().client_states(ids, selected, values)
        for state in states:
            state["measured"] = np.bool_(measured)
            state.move_to_end("value")
        return states

    def hand_over(
        self, server_state: ServerState, own: Structure, predecessor: Optional[Structure]
    ) -> Structure:
        """Return what a client starts from that becomes active.

        Args:
          server_state: The server's state.
          own: What the client keeps from when it was active before.
          predecessor: What the client keeps that was active before in its place; None if it was
            late in every round and has trained nothing: then the average is taken over.
        """
        value = OrderedDict(predecessor or own, correction=own["correction"])
        if self._params.design == 1 or predecessor is None:
            weights = server_state.global_model_weights
            value["parameters"] = _concatenate(weights.trainable)
            value["statistics"] = _concatenate(weights.non_trainable)
            if "anchor" in value:
                value["anchor"] = value["parameters"]
        if self._params.reset_momentum or predecessor is None:
            value["momentum"] = np.zeros_like(own["momentum"])
        return value

    def left_behind(self, value: Structure, initial: Structure) -> Structure:
        """Return what a client keeps that is no longer active: what nobody took over."""
        return OrderedDict(initial, correction=value["correction"])


def build(
    model: ModelSpec, params: AveragingParams, rules: Rules, aggregator: AggregatorLike = None
) -> AveragingProcess:
    """Return the process; the aggregator must be the mean.

    Raises:
      ValueError: If it is another.
    """
    as_aggregator(aggregator).check(REFUSED)
    if params.measure_steps and rules.intervals:
        raise ValueError(
            "measure_steps must be off where the interval varies. Received: measure_steps=True"
        )
    if params.measure_steps:
        rules = rules.by_step()
    setting = Setting(
        model,
        params.local,
        params.weighting,
        rules,
        measure_steps=params.measure_steps,
        measure_losses=params.measure_losses,
    )
    return AveragingProcess(averaging_round.Computations(setting), params)


def _concatenate(tensors: Sequence[Array]) -> Array:
    """Return the float arrays as one vector, as clients keep them."""
    arrays = [np.asarray(tensor) for tensor in tensors]
    flat = [a.reshape(-1) for a in arrays if np.issubdtype(a.dtype, np.floating)]
    return np.concatenate(flat) if flat else np.zeros(0, np.float32)
