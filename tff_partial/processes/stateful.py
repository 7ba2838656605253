"""The process whose clients keep something between rounds.

    next(server_state, client_states@CLIENTS, records@CLIENTS)
        -> (server_state, client_states@CLIENTS, metrics)

An algorithm says what a client and the server keep, what a client does in a round and what the
server makes of it (`Rules`); everything else is here. What a client keeps is handed in and out
with its id: with several remote workers the results come back in another order. `client_state`
is the store that keeps it between the rounds; the server never holds a table of the clients.
"""

from __future__ import annotations

import collections
import dataclasses
from collections.abc import Mapping, Sequence
from typing import Any, Callable, NamedTuple, Optional

import numpy as np

from tff_partial.core import aggregation, client_data, finite, local_training
from tff_partial.core.lazy import tf, tff
from tff_partial.core.model import ModelSpec
from tff_partial.core.vectors import Vector, choose, unwrap, wrap, zeros
from tff_partial.layers import parts
from tff_partial.processes import learning


@dataclasses.dataclass(frozen=True)
class StatefulParams:
    """Hyperparameters that every algorithm with client state has.

    Attributes:
      local: How a client trains.
      population: Number of all clients (N).
      weighting: Weight of a client in the mean: `uniform`, as in the papers, or `examples`.
    """

    local: local_training.LocalTraining = dataclasses.field(
        default_factory=lambda: local_training.LocalTraining(epochs=1)
    )
    population: Optional[int] = None
    weighting: str = "uniform"

    def __post_init__(self) -> None:
        finite.check_fields(self)
        learning.check_mean(self.weighting)

    def check_population(self) -> int:
        """The number of clients, where an algorithm cannot do without."""
        if not self.population or self.population < 1:
            raise ValueError(
                "population must be the number of all clients. "
                f"Received: population={self.population}"
            )
        return self.population


class Client(NamedTuple):
    """What a client knows in a round, in the graph.

    Attributes:
      weights: The server's model (x, theta).
      sent: What the server sends beside it.
      state: What the client has kept.
      selected: Whether what it does goes to the server.
      round_num: Number of the round, from 0.
      rate: The round -> eta.
      steps: How many gradients the displacement of this round is: K, the number of local steps
        (at least 1), without momentum; `LocalTraining.effective_steps` with it.
      momentum: Of local SGD (mu).
      train: (Start, slope) -> the model after local SGD, and the slope there. The slope is the
        gradient of what the algorithm adds to the client's objective, given at the server's model
        (where the gradient of `Rules.pull` is 0) and returned at the trained one. It can be left
        out. To be called once.
    """

    weights: Vector
    sent: Any
    state: Any
    selected: Any
    round_num: Any
    rate: Callable[[Any], Any]
    steps: Any
    momentum: float
    train: Callable[..., tuple[Vector, Vector]]


class Update(NamedTuple):
    """What comes of a client's round.

    Attributes:
      model: Its local model; the server receives the mean over the selected clients.
      state: What it keeps.
      summed: A vector or a dictionary of them of which the server receives the sum over the
        selected clients.
    """

    model: Vector
    state: Any
    summed: Any = Vector(())


def nobody(selected: Sequence[int], upcoming: Sequence[int], population: Sequence[int]) -> Any:
    """No client trains beside those that are selected."""
    return []


class Server(NamedTuple):
    """What the server knows at the end of a round, in the graph.

    Attributes:
      weights: Its model (x, theta).
      state: What it has kept beside it.
      update: Mean over the selected clients of their model minus the server's.
      moved: The sum of the same, whatever the weights in the mean are.
      sums: Of what they send beside their model.
      count: Number of selected clients, at least 1.
    """

    weights: Vector
    state: Any
    update: Vector
    moved: Vector
    sums: Any
    count: Any


def takes_the_mean(of: Server) -> tuple[Vector, Any]:
    """The server's model is the mean of the clients'."""
    return of.weights + of.update, of.state


@dataclasses.dataclass(frozen=True)
class Rules:
    """An algorithm with client state.

    Vectors have an entry for each trainable variable; states are vectors, scalars or dictionaries
    of them.

    Attributes:
      client_state: Initial model -> what a client keeps that never took part.
      server_state: Initial model -> what the server keeps beside its model.
      client: What a client does.
      server: What the server does -> its new model and state.
      pull: Weight of a penalty 1/2 |w - x|^2 on a client's distance from the server's model.
      sent: What of the server's state is sent to the clients.
      other_models: Label -> (server's state -> a further model that is evaluated).
      unselected: (The selected clients, those of the next round, all) -> who else trains.
    """

    client_state: Callable[[Vector], Any]
    client: Callable[[Client], Update]
    server_state: Callable[[Vector], Any] = lambda weights: ()
    server: Callable[[Server], tuple[Vector, Any]] = takes_the_mean
    pull: float = 0.0
    sent: Callable[[Any], Any] = lambda state: ()
    other_models: Mapping[str, Callable[[Any], Vector]] = dataclasses.field(default_factory=dict)
    unselected: Callable[..., Sequence[int]] = nobody


class Output(NamedTuple):
    """What `next` returns."""

    state: Any
    client_states: Any
    metrics: Any


class StatefulProcess:
    """As a `tff.learning.templates.LearningProcess`, with client states in `next`.

    Attributes:
      initialize, next, get_model_weights, set_model_weights, get_hparams, set_hparams, state_type:
        Those of a LearningProcess; `next` takes and returns client states too.
      client_state_type: TFF type of what `next` takes and returns for a client: `client_id`,
        `selected` (whether it uploads) and `value`.
      initial_client_state: TFF computation that returns the `value` of a client never seen.
      other_models: Label -> TFF computation, server state -> weights of a further model.
      unselected: See `Rules`.
    """

    def __init__(
        self,
        initialize: Any,
        next_fn: Any,
        initial_client_state: Any,
        other_models: Mapping[str, Any],
        unselected: Callable[..., Sequence[int]],
    ) -> None:
        self.initialize, self.next = initialize, next_fn
        self.initial_client_state = initial_client_state
        self.other_models = other_models
        self.unselected = unselected
        self.state_type = initialize.type_signature.result.member
        self.client_state_type = next_fn.type_signature.parameter[1].member
        weights_type = self.state_type.global_model_weights

        @tff.tensorflow.computation(self.state_type)
        def get_model_weights(state: Any) -> Any:
            return state.global_model_weights

        @tff.tensorflow.computation(self.state_type, weights_type)
        def set_model_weights(state: Any, weights: Any) -> Any:
            return tff.learning.templates.LearningAlgorithmState(
                weights, state.distributor, state.client_work, state.aggregator, state.finalizer
            )

        @tff.tensorflow.computation(self.state_type)
        def get_hparams(state: Any) -> Any:
            return collections.OrderedDict()

        @tff.tensorflow.computation(self.state_type, get_hparams.type_signature.result)
        def set_hparams(state: Any, hparams: Any) -> Any:
            return state

        self.get_model_weights, self.set_model_weights = get_model_weights, set_model_weights
        self.get_hparams, self.set_hparams = get_hparams, set_hparams

    def client_states(self, ids: Sequence[int], selected: Sequence[bool], values: Any) -> list[Any]:
        """What `next` takes for the clients, in the order of their records."""
        return [
            collections.OrderedDict(
                client_id=np.int64(i), selected=np.bool_(is_selected), value=value
            )
            for i, is_selected, value in zip(ids, selected, values)
        ]


def build(
    model: ModelSpec,
    local: local_training.LocalTraining,
    rules: Rules,
    weighting: str = "uniform",
    aggregator: Optional[Any] = None,
) -> StatefulProcess:
    """Returns the process.

    Args:
      model: The model.
      local: How a client trains.
      rules: The algorithm.
      weighting: In the mean clients count by their `examples`, or are `uniform`.
      aggregator: A weighted TFF aggregation factory; the mean over contributors by default.

    Raises:
      ValueError: If `weighting` is not valid.
    """
    learning.check_mean(weighting)
    initial_weights = learning.build_initial_weights(model)

    @tff.tensorflow.computation
    def initial_client_state() -> Any:
        return unwrap(rules.client_state(Vector(model.instantiate().trainable)))

    @tff.tensorflow.computation
    def initial_server_state() -> Any:
        return unwrap(rules.server_state(Vector(model.instantiate().trainable)))

    server_type = initial_server_state.type_signature.result
    client_type = tff.to_type(
        collections.OrderedDict(
            client_id=np.int64,
            selected=np.bool_,
            value=initial_client_state.type_signature.result,
        )
    )

    @tff.tensorflow.computation(server_type)
    def sent_by_server(state: Any) -> Any:
        return unwrap(rules.sent(wrap(state)))

    client_update = _build_client_update(
        model, local, rules, weighting, client_type, sent_by_server.type_signature.result
    )
    outcome = client_update.type_signature.result
    mean = (aggregator or aggregation.ContributorMean()).create(outcome.update, outcome.weight)

    @tff.tensorflow.computation(model.weights_type, server_type, model.weights_type, outcome.summed)
    def server_update(weights: Any, state: Any, update: Any, sums: Any) -> Any:
        x, kept_state, count = Vector(weights.trainable), wrap(state), sums["clients"]
        mean = Vector(update.trainable)
        moved = wrap(sums["moved"]) if weighting == "examples" else count * mean
        new, new_state = rules.server(
            Server(x, kept_state, mean, moved, wrap(sums["rules"]), count)
        )
        # Where all clients were late, nothing has been learnt that a drift would correct.
        kept = choose(
            count > 0, {"model": new, "state": new_state}, {"model": x, "state": kept_state}
        )
        statistics = [w + d for w, d in zip(weights.non_trainable, update.non_trainable)]
        model_weights = tff.learning.models.ModelWeights(kept["model"].tensors, statistics)
        return model_weights, unwrap(kept["state"])

    @tff.tensorflow.computation(np.int32)
    def next_round(round_num: Any) -> Any:
        return round_num + 1

    @tff.federated_computation
    def initialize() -> Any:
        empty = tff.federated_value((), tff.SERVER)
        state = tff.learning.templates.LearningAlgorithmState(
            tff.federated_eval(initial_weights, tff.SERVER),
            empty,
            tff.federated_value(0, tff.SERVER),
            mean.initialize(),
            tff.federated_eval(initial_server_state, tff.SERVER),
        )
        return tff.federated_zip(state)

    @tff.federated_computation(
        initialize.type_signature.result,
        tff.FederatedType(client_type, tff.CLIENTS),
        tff.FederatedType(tff.SequenceType(model.record_type), tff.CLIENTS),
    )
    def next_fn(state: Any, client_states: Any, data: Any) -> Any:
        weights, round_num = state.global_model_weights, state.client_work
        sent = tff.federated_map(sent_by_server, state.finalizer)
        broadcast = tff.federated_broadcast(tff.federated_zip((weights, sent, round_num)))
        done = tff.federated_map(client_update, (broadcast, client_states, data))
        average = mean.next(state.aggregator, done.update, done.weight)
        sums = tff.federated_sum(done.summed)
        new_weights, kept = tff.federated_map(
            server_update, (weights, state.finalizer, average.result, sums)
        )
        new_state = tff.learning.templates.LearningAlgorithmState(
            new_weights,
            state.distributor,
            tff.federated_map(next_round, round_num),
            average.state,
            kept,
        )
        metrics = collections.OrderedDict(
            client_work=learning.train_metrics(done.sums), aggregator=average.measurements
        )
        return Output(tff.federated_zip(new_state), done.client_state, tff.federated_zip(metrics))

    return StatefulProcess(
        initialize,
        next_fn,
        initial_client_state,
        _build_other_models(model, rules, initialize.type_signature.result.member),
        rules.unselected,
    )


def _build_client_update(
    model: ModelSpec,
    local: local_training.LocalTraining,
    rules: Rules,
    weighting: str,
    client_type: Any,
    sent_type: Any,
) -> Any:
    broadcast_type = tff.to_type((model.weights_type, sent_type, np.int32))

    @tff.tensorflow.computation(broadcast_type, client_type, tff.SequenceType(model.record_type))
    def client_update(broadcast: Any, client: Any, dataset: Any) -> Any:
        built = model.instantiate()
        loop = local_training.build(built, parts.everything(built), local, rules.pull)

        @tf.function
        def run(broadcast: Any, client: Any, record: Any) -> Any:
            weights, sent, round_num = broadcast
            record = client_data.in_round(record, round_num)
            num_examples = tf.shape(record["y"])[0]
            x, found = Vector(weights.trainable), []

            def train(start: Vector, slope: Optional[Vector] = None) -> tuple[Vector, Any]:
                if rules.pull and start is not x:
                    beyond = rules.pull * (start - x)
                    slope = slope + beyond if slope else beyond
                initial = tff.learning.models.ModelWeights(start.tensors, weights.non_trainable)
                tensors = slope.tensors if slope else ()
                found.append(loop(initial, record, local.rate(round_num), tensors))
                if rules.pull:
                    slopes = [built.buffer(v, local_training.SLOPE) for v in built.trainable]
                    slope = Vector(v.read_value() for v in slopes)
                return Vector(v.read_value() for v in built.trainable), slope

            state = wrap(client["value"])
            steps = local.effective_steps(tf.maximum(local.num_steps(num_examples), 1))
            update = rules.client(
                Client(
                    x,
                    wrap(sent),
                    state,
                    client["selected"],
                    round_num,
                    local.rate,
                    steps,
                    local.momentum,
                    train,
                )
            )
            has_examples = num_examples > 0
            counts = tf.cast(tf.logical_and(client["selected"], has_examples), tf.float32)
            statistics = zip(built.statistics, weights.non_trainable)
            moved = update.model - x
            # With uniform weights the sum is known from the mean.
            summed = {
                "rules": update.summed,
                "moved": moved if weighting == "examples" else Vector(()),
            }
            return collections.OrderedDict(
                update=tff.learning.models.ModelWeights(
                    moved.tensors, [v - w for v, w in statistics]
                ),
                weight=counts * learning.client_weight(record, weighting),
                summed=collections.OrderedDict(
                    clients=counts, **unwrap(choose(counts > 0, summed, zeros(summed)))
                ),
                client_state=collections.OrderedDict(
                    client_id=record["client_id"],
                    selected=client["selected"],
                    # A client without examples has learnt nothing.
                    value=unwrap(choose(has_examples, update.state, state)),
                ),
                sums=tf.nest.map_structure(lambda t: counts * t, found[0]),
            )

        return run(broadcast, client, dataset.get_single_element())

    return client_update


def _build_other_models(model: ModelSpec, rules: Rules, state_type: Any) -> dict[str, Any]:
    def create(model_of: Callable[[Any], Vector]) -> Any:
        @tff.tensorflow.computation(state_type)
        def get_weights(state: Any) -> Any:
            vector = model_of(wrap(state.finalizer))
            statistics = state.global_model_weights.non_trainable
            return tff.learning.models.ModelWeights(vector.tensors, statistics)

        return get_weights

    return {label: create(model_of) for label, model_of in rules.other_models.items()}
