"""The process whose clients keep something between rounds.

    next(server_state, client_states@CLIENTS, records@CLIENTS)
        -> (server_state, client_states@CLIENTS, metrics)

An algorithm says what a client and the server keep, what a client does in a round and what the
server makes of it (`Rules`); everything else is here. What a client keeps is handed in and out
with its id: with several remote workers the results come back in another order.
`experiments.client_store` keeps it between the rounds; the server never holds a table of clients.
"""

from __future__ import annotations

import dataclasses
import functools
from collections import OrderedDict
from collections.abc import Mapping, Sequence
from typing import Callable, ClassVar, NamedTuple, Optional

import numpy as np

from tff_partial.core import checks
from tff_partial.core.aggregators import AggregatorLike, as_aggregator
from tff_partial.core.lazy import tff
from tff_partial.core.local_training import LocalTraining
from tff_partial.core.model import ModelSpec
from tff_partial.core.server_optimizers import ServerOptimizer
from tff_partial.core.types import Computation, Federated, ServerState, Structure, Weights
from tff_partial.core.vectors import Vector, unwrap, wrap
from tff_partial.processes import client_work, finalizers, learning, uploads
from tff_partial.processes.stateful_computations import build_client_update, build_server_update
from tff_partial.processes.stateful_rules import Rules, State, Unselected, nobody


@dataclasses.dataclass(frozen=True)
class StatefulParams:
    """Hyperparameters that every algorithm with client state has.

    Attributes:
      local: How a client trains.
      population: Number of all clients (N).
      weighting: Weight of a client in the mean: `uniform`, as in the papers, or `examples`.
      server: What the server makes of the mean.
    """

    local: LocalTraining = dataclasses.field(default_factory=lambda: LocalTraining(epochs=1))
    population: Optional[int] = None
    weighting: str = "uniform"
    server: ServerOptimizer = learning.SUM
    NEEDS_SGD: ClassVar[str] = ""  # why clients must train with SGD, if they must
    NEEDS_SUM: ClassVar[str] = ""  # why the server must add the mean, if it must

    def __post_init__(self) -> None:
        checks.finite_fields(self)
        learning.check_mean(self.weighting)
        if self.NEEDS_SGD:
            self.local.check_sgd(self.NEEDS_SGD)
        if self.NEEDS_SUM:
            self.server.check_sum(self.NEEDS_SUM)

    def check_population(self) -> int:
        """Return the number of clients, where an algorithm cannot do without."""
        if not self.population or self.population < 1:
            raise ValueError(
                "population must be the number of all clients. "
                f"Received: population={self.population}"
            )
        return self.population


class Output(NamedTuple):
    """What `next` returns."""

    state: ServerState
    client_states: Structure
    metrics: Mapping[str, Structure]


class StatefulProcess:
    """A process like `tff.learning.templates.LearningProcess`, with client states in `next`.

    Attributes:
      initialize, next, get_model_weights, set_model_weights, get_hparams, set_hparams, state_type:
        Those of a LearningProcess; `next` takes and returns client states too.
      client_state_type: TFF type of what `next` takes and returns for a client: `client_id`,
        `selected` (whether it uploads) and `value`.
      initial_client_state: TFF computation that returns the `value` of a client never seen.
      other_models: Label -> TFF computation, server state -> weights of a further model.
      unselected: See `Rules`.
      record_precision: Type that a store keeps client states in.
    """

    def __init__(
        self,
        initialize: Computation,
        next_fn: Computation,
        initial_client_state: Computation,
        other_models: Mapping[str, Computation],
        unselected: Unselected = nobody,
        record_precision: str = "float32",
    ) -> None:
        self.initialize, self.next = initialize, next_fn
        self.initial_client_state = initial_client_state
        self.other_models, self.unselected = other_models, unselected
        self.record_precision = record_precision
        state_type = self.state_type = initialize.type_signature.result.member
        self.client_state_type = next_fn.type_signature.parameter[1].member
        compute, no_hparams = tff.tensorflow.computation, tff.to_type(OrderedDict())
        self.get_model_weights = compute(lambda state: state.global_model_weights, state_type)
        self.set_model_weights = compute(
            lambda state, weights: state._replace(global_model_weights=weights),
            state_type,
            state_type.global_model_weights,
        )
        self.get_hparams = compute(lambda state: OrderedDict(), state_type)
        self.set_hparams = compute(lambda state, hparams: state, state_type, no_hparams)

    def client_states(
        self, ids: Sequence[int], selected: Sequence[bool], values: Sequence[Structure]
    ) -> list[Structure]:
        """Return what `next` takes for the clients, in the order of their records."""
        return [
            OrderedDict(client_id=np.int64(i), selected=np.bool_(s), value=value)
            for i, s, value in zip(ids, selected, values)
        ]


def build(
    model: ModelSpec,
    local: LocalTraining,
    rules: Rules,
    weighting: str = "uniform",
    aggregator: AggregatorLike = None,
    server: ServerOptimizer = learning.SUM,
) -> StatefulProcess:
    """Return the process of an algorithm.

    Clients count in the mean by their `examples`, or are `uniform`; `aggregator` says how updates
    are combined (`core.aggregators`), the mean over contributors by default, and `server` what the
    server makes of the mean.

    Raises:
      ValueError: If `weighting` is not valid.
    """
    learning.check_mean(weighting)
    rules = finalizers.with_optimizer(rules, server)
    initial_client_state = _build_initial(model, rules.client_state)
    combined = as_aggregator(aggregator)
    combined.check(uploads.REFUSED)
    value_type = initial_client_state.type_signature.result
    client_type = OrderedDict(client_id=np.int64, selected=np.bool_, value=value_type)
    client_update = build_client_update(model, local, rules, weighting)
    initial_server_state = _build_initial(model, rules.server_state)
    at_clients = [tff.FederatedType(type_, tff.CLIENTS) for type_ in (client_type, model.data_type)]

    def train(sent: Sequence[Federated], clients: Federated, data: Federated) -> Federated:
        return tff.federated_map(client_update, (_send(rules, *sent), clients, data))

    def done_type() -> tff.Type:
        server_types = model.weights_type, initial_server_state.type_signature.result, np.int32
        at_server = [tff.FederatedType(type_, tff.SERVER) for type_ in server_types]
        traced = tff.federated_computation(train, at_server, *at_clients)
        return traced.type_signature.result.member

    upload: uploads.Upload = uploads.MeanAndSums(model, combined)
    if combined.NAME in ("robust", "secure"):
        upload = uploads.Joint(combined, done_type())
    initialize = build_initialize(model, upload, initial_server_state)

    @tff.federated_computation(
        initialize.type_signature.result,
        *at_clients,
    )
    def next_fn(state: Federated, client_states: Federated, data: Federated) -> Federated:
        sent = state.global_model_weights, state.finalizer, state.client_work
        done = train(sent, client_states, data)
        aggregated = upload.next(state.aggregator, done)
        new_state = _finalize(rules, weighting, state, aggregated)
        trained = client_work.train_metrics(done.sums, aggregator=combined)
        metrics = OrderedDict(client_work=trained, aggregator=aggregated.measurements)
        return Output(new_state, done.client_state, tff.federated_zip(metrics))

    others = _build_other_models(rules, initialize.type_signature.result.member)
    return StatefulProcess(
        initialize,
        next_fn,
        initial_client_state,
        others,
        rules.unselected,
        local.record_precision,
    )


def _build_initial(model: ModelSpec, create: Callable[[Vector], State]) -> Computation:
    """Return the computation of a state from the initial model."""
    return tff.tensorflow.computation(lambda: unwrap(create(Vector(model.instantiate().trainable))))


def build_initialize(
    model: ModelSpec, mean: uploads.HasInitialize, initial_server_state: Computation
) -> Computation:
    """Return the computation of the server's state before the first round.

    `mean` is what aggregates, whose state is part of it.
    """
    initial_weights = learning.build_initial_weights(model)
    return tff.federated_computation(
        lambda: _state(
            tff.federated_eval(initial_weights, tff.SERVER),
            tff.federated_value((), tff.SERVER),
            tff.federated_value(0, tff.SERVER),
            mean.initialize(),
            tff.federated_eval(initial_server_state, tff.SERVER),
        )
    )


def _state(*parts: Federated) -> Federated:
    return tff.federated_zip(tff.learning.templates.LearningAlgorithmState(*parts))


def _send(rules: Rules, weights: Federated, kept: Federated, round_num: Federated) -> Federated:
    """Return the weights, what the rules send, and the round's number at the clients."""
    send = tff.tensorflow.computation(lambda state: unwrap(rules.sent(wrap(state))))
    sent = tff.federated_map(send, kept)
    return tff.federated_broadcast(tff.federated_zip((weights, sent, round_num)))


def _finalize(
    rules: Rules, weighting: str, state: Federated, aggregated: uploads.Aggregated
) -> Federated:
    """Return the server's state after a round."""
    values = state.global_model_weights, state.finalizer, aggregated.mean, aggregated.sums
    types = [value.type_signature.member for value in values]
    weights, kept = tff.federated_map(build_server_update(rules, weighting, *types), values)
    round_num = client_work.next_round(state.client_work)
    return _state(weights, state.distributor, round_num, aggregated.state, kept)


def _build_other_models(rules: Rules, state_type: tff.Type) -> dict[str, Computation]:
    """Return the computations of `StatefulProcess.other_models`."""

    def weights(model_of: Callable[[State], Vector], state: ServerState) -> Weights:
        statistics = state.global_model_weights.non_trainable
        return tff.learning.models.ModelWeights(model_of(wrap(state.finalizer)).tensors, statistics)

    return {
        label: tff.tensorflow.computation(functools.partial(weights, model_of), state_type)
        for label, model_of in rules.other_models.items()
    }
