"""The process whose clients keep their local models and average parts of them as they train.

    for each segment of the round (steps, subset):
        every active client i:  x_i <- that many steps of SGD from x_i
        u <- mean over the active clients of the subset of x_i
        every active client i:  the subset of x_i <- u

Partial averaging has a segment for each of the tau steps of a round, periodic averaging one of tau
steps whose subset is the whole model. A client's state is its local model, its momentum and its
batch-norm statistics; only parameters are averaged while training. The model that is evaluated is
the mean of the local models (and of their statistics) after the round.

A round is one TFF computation that calls those of `averaging_computations` in turn, values staying
in the runtime; `one_step` calls them one by one, for TFF's context of several remote workers, which
admits one aggregation.
"""

from __future__ import annotations

import collections
import dataclasses
from collections.abc import Sequence
from typing import Any, Callable, ClassVar, Optional

import numpy as np

from tff_partial import local_training, process, stateful_process, subsets
from tff_partial.averaging_computations import NOTHING, Computations, Rules
from tff_partial.lazy import tf, tff
from tff_partial.model_spec import ModelSpec

DESIGNS = (1, 2)


@dataclasses.dataclass(frozen=True)
class AveragingParams(stateful_process.StatefulParams):
    """Hyperparameters of algorithms whose local models persist.

    Attributes:
      local: How a client trains; its steps are the interval tau.
      rounds_active: After so many rounds other clients become active; 0: never. By default 1, 10
        for partial averaging, unless all clients are active anyway: then never.
      design: They take over the average (1), or each one of the local models as it is (2).
      one_step: Whether every step is a TFF computation of its own.
      active: Number of clients that are active at a time.
    """

    local: local_training.LocalTraining = dataclasses.field(
        default_factory=lambda: local_training.LocalTraining(steps=10)
    )
    rounds_active: Optional[int] = None
    design: int = 2
    one_step: bool = False
    active: Optional[int] = None
    DEFAULT_ROUNDS_ACTIVE: ClassVar[int] = 1

    def __post_init__(self) -> None:
        super().__post_init__()
        self.interval()
        if self.rounds_active is not None and self.rounds_active < 0:
            raise ValueError(
                f"rounds_active must not be negative. Received: rounds_active={self.rounds_active}"
            )
        if self.design not in DESIGNS:
            raise ValueError(f"design must be one of {DESIGNS}. Received: design={self.design}")

    def period(self) -> int:
        """After so many rounds other clients become active; 0: never."""
        if self.rounds_active is not None:
            return self.rounds_active
        everybody = self.active is None or self.active == self.population
        return 0 if everybody else self.DEFAULT_ROUNDS_ACTIVE

    def interval(self) -> int:
        """tau, the number of local steps of a round."""
        if self.local.steps is None:
            raise ValueError(
                "averaging must have local steps, its interval. "
                f"Received: epochs={self.local.epochs}"
            )
        return self.local.steps


def shapes_of(model: ModelSpec) -> list[tuple[int, ...]]:
    """Shapes of the trainable variables."""
    return [tuple(leaf.shape) for leaf in tff.structure.flatten(model.weights_type.trainable)]


class AveragingProcess(stateful_process.StatefulProcess):
    """A `StatefulProcess` whose clients stay active for some rounds.

    Attributes:
      rounds_active: After so many rounds other clients become active; 0: never.
      design: What they take over: 1, the average; 2, the local models.
      measure_losses: TFF computation: server state, client states, records -> the smallest and the
        mean loss of the local models and that of the global one, each on the clients' examples.
    """

    rounds_active: int
    design: int
    measure_losses: Any


def build(model: ModelSpec, params: AveragingParams, rules: Rules) -> AveragingProcess:
    """Returns the process."""
    pieces = Computations(model, params, rules)
    round_fn = _build_round(pieces)
    built = AveragingProcess(
        pieces.initialize, round_fn, pieces.initial_client_state, {}, stateful_process.nobody
    )
    if params.one_step:
        built.next = _build_steps(pieces)
    built.rounds_active, built.design = params.period(), params.design
    built.measure_losses = pieces.losses
    return built


def _build_round(pieces: Computations) -> Any:
    """The round as one computation."""
    interval, begins = pieces.interval, pieces.params.period() > 0

    @tff.tensorflow.computation
    def no_average() -> Any:
        return tf.zeros([pieces.rules.layout.width])

    @tff.tensorflow.computation(np.int32)
    def next_number(round_num: Any) -> Any:
        return round_num + 1

    @tff.federated_computation(
        pieces.initialize.type_signature.result, pieces.clients_type, pieces.data_type
    )
    def next_fn(state: Any, clients: Any, data: Any) -> Any:
        weights, round_num = state.global_model_weights, state.client_work
        if begins:
            clients = pieces.begin(weights, round_num, clients)
        average, averaged = tff.federated_eval(no_average, tff.SERVER), NOTHING
        aggregator, sums = state.aggregator, []
        for first, stop, subset in pieces.rules.segments:
            sent = _send(average, averaged, round_num, first, stop, subset)
            average, aggregator, part, clients = pieces.advance(sent, aggregator, clients, data)
            averaged = subset
            sums.append(part)
        sent = _send(average, averaged, round_num, interval, interval, NOTHING)
        apart = clients
        new_weights, clients = pieces.finish(sent, weights, clients, data)
        # An average leaves the mean of the models as it is.
        before = pieces.measure(new_weights, apart, data)
        after = pieces.measure(new_weights, clients, data)
        new_state = tff.learning.templates.LearningAlgorithmState(
            new_weights,
            state.distributor,
            tff.federated_map(next_number, round_num),
            aggregator,
            state.finalizer,
        )
        metrics = tff.federated_map(
            _build_metrics(pieces), (tff.federated_zip(tuple(sums)), before, after)
        )
        return stateful_process.Output(
            tff.federated_zip(new_state),
            clients,
            tff.federated_zip(collections.OrderedDict(client_work=metrics)),
        )

    return next_fn


def _send(average: Any, averaged: int, round_num: Any, first: int, stop: int, subset: int) -> Any:
    numbers = collections.OrderedDict(averaged=averaged, first=first, stop=stop, subset=subset)
    placed = {k: tff.federated_value(np.int32(v), tff.SERVER) for k, v in numbers.items()}
    return tff.federated_zip(
        collections.OrderedDict(
            average=average,
            averaged=placed["averaged"],
            round=round_num,
            first=placed["first"],
            stop=placed["stop"],
            subset=placed["subset"],
        )
    )


def _build_metrics(pieces: Computations) -> Any:
    """The segments' sums and the discrepancies -> metrics."""
    sums_type = pieces.advance.type_signature.result[2].member
    count = len(pieces.rules.segments)

    @tff.tensorflow.computation(tff.to_type((sums_type,) * count), np.float32, np.float32)
    def metrics(sums: Any, before: Any, after: Any) -> Any:
        return _metrics(list(sums), before, after)

    return metrics


def _build_steps(pieces: Computations) -> Callable[..., Any]:
    """The round as a Python function that calls one computation after the other."""

    def next_fn(state: Any, clients: Any, data: Any) -> Any:
        order = {int(c["client_id"]): i for i, c in enumerate(clients)}

        def sort(found: Any) -> Any:
            # Several workers return clients in another order.
            return sorted(found, key=lambda c: order[int(c["client_id"])])

        weights, round_num = state.global_model_weights, np.int32(state.client_work)
        if pieces.params.period():
            clients = sort(pieces.begin(weights, round_num, clients))
        average, averaged = np.zeros(pieces.rules.layout.width, np.float32), NOTHING
        aggregator, sums = state.aggregator, []

        def send(first: int, stop: int, subset: int) -> Any:
            return collections.OrderedDict(
                average=average,
                averaged=np.int32(averaged),
                round=round_num,
                first=np.int32(first),
                stop=np.int32(stop),
                subset=np.int32(subset),
            )

        for first, stop, subset in pieces.rules.segments:
            sent = send(first, stop, subset)
            average, aggregator, part, clients = pieces.advance(sent, aggregator, clients, data)
            clients, averaged = sort(clients), subset
            sums.append(part)
        sent = send(pieces.interval, pieces.interval, NOTHING)
        apart = clients
        new_weights, clients = pieces.finish(sent, weights, clients, data)
        clients = sort(clients)
        before = pieces.measure(new_weights, apart, data)
        after = pieces.measure(new_weights, clients, data)
        new_state = tff.learning.templates.LearningAlgorithmState(
            new_weights,
            state.distributor,
            np.int32(round_num + 1),
            aggregator,
            state.finalizer,
        )
        metrics = {name: np.asarray(v) for name, v in _metrics(sums, before, after).items()}
        return stateful_process.Output(new_state, clients, {"client_work": metrics})

    return next_fn


def _metrics(sums: Sequence[Any], before: Any, after: Any) -> Any:
    totals = {name: sum(part[name] for part in sums) for name in ("loss", "correct", "examples")}
    return collections.OrderedDict(
        process.mean_metrics(totals), discrepancy_before=before, discrepancy=after
    )


def whole_model(model: ModelSpec) -> subsets.Layout:
    """One subset that holds everything."""
    shapes = shapes_of(model)
    return subsets.Layout(shapes, [np.array(0, np.int32)] * len(shapes), 1)
