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

A round is one TFF computation that calls those of `averaging_computations` in turn, values staying
in the runtime; `one_step` calls them one by one, for TFF's context of several remote workers, which
admits one aggregation.
"""

from __future__ import annotations

import collections
import dataclasses
from collections.abc import Mapping, Sequence
from typing import Any, Callable, ClassVar, Optional

import numpy as np

from tff_partial.core import local_training
from tff_partial.core.lazy import tf, tff
from tff_partial.core.model import ModelSpec
from tff_partial.processes import learning, parameter_subsets, stateful
from tff_partial.processes.averaging_computations import NOTHING, Computations, Rules

DESIGNS = (1, 2)


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
      one_step: Whether every step is a TFF computation of its own, as several workers need it.
      active: Number of clients that are active at a time.
    """

    local: local_training.LocalTraining = dataclasses.field(
        default_factory=lambda: local_training.LocalTraining(steps=10)
    )
    rounds_active: Optional[int] = None
    design: int = 2
    reset_momentum: bool = False
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


def layers_of(model: ModelSpec) -> list[int]:
    """For each trainable variable the number of the layer that it belongs to."""
    with tf.Graph().as_default():
        built = model.instantiate()
        layers = [x for b in built.blocks for x in b._flatten_layers()]
        owner = {id(v): i for i, x in enumerate(layers) for v in x._trainable_weights}
        return [owner[id(v)] for v in built.trainable]


class AveragingProcess(stateful.StatefulProcess):
    """A `StatefulProcess` whose clients stay active for some rounds.

    `next` also returns `losses` among its metrics: the smallest and the mean loss of the local
    models before the last average of the round and that of the global one, each on all examples
    of the clients. They are 0 unless `client_states` said that clients are to be measured.

    Attributes:
      rounds_active: After so many rounds other clients become active; 0: never.
      measure: What `next` returned -> further columns of a round that was measured.
    """

    def __init__(self, pieces: Computations) -> None:
        super().__init__(
            pieces.initialize,
            _build_round(pieces),
            pieces.initial_client_state,
            {},
            stateful.nobody,
        )
        if pieces.params.one_step:
            self.next = _build_steps(pieces)
        self._params = pieces.params
        self.rounds_active = pieces.params.period()
        self.measure: Callable[[Any], Mapping[str, Any]] = _losses

    def client_states(
        self,
        ids: Sequence[int],
        selected: Sequence[bool],
        values: Any,
        measured: bool = False,
    ) -> list[Any]:
        states = super().client_states(ids, selected, values)
        return [
            collections.OrderedDict(
                client_id=state["client_id"],
                selected=state["selected"],
                measured=np.bool_(measured),
                value=state["value"],
            )
            for state in states
        ]

    def hand_over(self, server_state: Any, own: Any, predecessor: Any) -> Any:
        """Return what a client starts from that becomes active.

        Args:
          server_state: The server's state.
          own: What the client keeps from when it was active before.
          predecessor: What the client keeps that was active before in its place; None if it was
            late in every round and has trained nothing: then the average is taken over.
        """
        value = collections.OrderedDict(predecessor or own, correction=own["correction"])
        if self._params.design == 1 or predecessor is None:
            weights = server_state.global_model_weights
            value["parameters"] = _concatenate(weights.trainable)
            value["statistics"] = _concatenate(weights.non_trainable)
        if self._params.reset_momentum or predecessor is None:
            value["momentum"] = np.zeros_like(own["momentum"])
        return value

    def left_behind(self, value: Any, initial: Any) -> Any:
        """Return what a client keeps that is no longer active: what nobody took over."""
        return collections.OrderedDict(initial, correction=value["correction"])


def _losses(output: Any) -> Mapping[str, Any]:
    return {name: float(value) for name, value in output.metrics["losses"].items()}


def _concatenate(tensors: Sequence[Any]) -> np.ndarray:
    """The float arrays as one vector, as clients keep them."""
    arrays = [np.asarray(tensor) for tensor in tensors]
    flat = [a.reshape(-1) for a in arrays if np.issubdtype(a.dtype, np.floating)]
    return np.concatenate(flat) if flat else np.zeros(0, np.float32)


def build(model: ModelSpec, params: AveragingParams, rules: Rules) -> AveragingProcess:
    """Returns the process."""
    return AveragingProcess(Computations(model, params, rules))


def _build_round(pieces: Computations) -> Any:
    """The round as one computation."""
    interval = pieces.interval

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
        losses = pieces.losses(new_weights, apart, data)
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
        return stateful.Output(
            tff.federated_zip(new_state),
            clients,
            tff.federated_zip(collections.OrderedDict(client_work=metrics, losses=losses)),
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
        losses = pieces.losses(new_weights, apart, data)
        new_state = tff.learning.templates.LearningAlgorithmState(
            new_weights,
            state.distributor,
            np.int32(round_num + 1),
            aggregator,
            state.finalizer,
        )
        metrics = {name: np.asarray(v) for name, v in _metrics(sums, before, after).items()}
        return stateful.Output(new_state, clients, {"client_work": metrics, "losses": losses})

    return next_fn


def _metrics(sums: Sequence[Any], before: Any, after: Any) -> Any:
    totals = {name: sum(part[name] for part in sums) for name in ("loss", "correct", "examples")}
    return collections.OrderedDict(
        learning.mean_metrics(totals), discrepancy_before=before, discrepancy=after
    )


def whole_model(model: ModelSpec) -> parameter_subsets.Layout:
    """One subset that holds everything."""
    shapes = shapes_of(model)
    return parameter_subsets.Layout(shapes, [np.array(0, np.int32)] * len(shapes), 1)
