"""The process whose clients keep their local models and average parts of them as they train.

    for each segment of the round (steps, subset):
        every active client i:  x_i <- that many steps of SGD from x_i
        u <- mean over the active clients of the subset of x_i
        every active client i:  the subset of x_i <- u

Partial averaging has a segment for each of the tau steps of a round, periodic averaging one of tau
steps whose subset is the whole model. A client's state is its local model, its momentum and its
batch-norm statistics; only parameters are averaged while training. The model that is evaluated is
the mean of the local models (and of their statistics) after the round.

The computations `begin`, `advance`, `finish` and `measure` have at most one aggregation each. A
round is one TFF computation that calls them in turn, values staying in the runtime; `one_step`
calls them one by one, for TFF's context of several remote workers, which admits one aggregation.
"""

from __future__ import annotations

import collections
import dataclasses
from collections.abc import Sequence
from typing import Any, Callable, ClassVar, Optional

import numpy as np

from tff_partial import (
    aggregation,
    local_training,
    parts,
    process,
    records,
    stateful_process,
    subsets,
)
from tff_partial.lazy import tf, tff
from tff_partial.model_spec import ModelSpec

NOTHING = -1  # the subset of an average that has not been made
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


@dataclasses.dataclass(frozen=True)
class Rules:
    """What is averaged when.

    Attributes:
      layout: The subsets.
      segments: (First step, step after the last, subset) of each segment of a round.
      variance_reduced: Whether clients keep VRL-SGD's correction.
    """

    layout: subsets.Layout
    segments: Sequence[tuple[int, int, int]]
    variance_reduced: bool = False


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
    pieces = _Pieces(model, params, rules)
    round_fn = pieces.build_round()
    built = AveragingProcess(pieces.initialize, round_fn, pieces.initial_client_state, {}, _nobody)
    if params.one_step:
        built.next = pieces.build_steps()
    built.rounds_active, built.design = params.period(), params.design
    built.measure_losses = pieces.build_losses()
    return built


_nobody = stateful_process.nobody


class _Pieces:
    """The TFF computations of which a round consists."""

    def __init__(self, model: ModelSpec, params: AveragingParams, rules: Rules) -> None:
        self._model, self._params, self._rules = model, params, rules
        self._interval = params.interval()
        initial_weights = process.build_initial_weights(model)

        @tff.tensorflow.computation
        def initial_client_state() -> Any:
            built = model.instantiate()
            parameters = rules.layout.flatten(built.trainable)
            nothing = tf.zeros([0])
            return collections.OrderedDict(
                parameters=parameters,
                momentum=tf.zeros_like(parameters) if params.local.momentum else nothing,
                statistics=_flatten(built.statistics),
                correction=tf.zeros_like(parameters) if rules.variance_reduced else nothing,
            )

        self.initial_client_state = initial_client_state
        self._value_type = initial_client_state.type_signature.result
        self._client_type = tff.to_type(
            collections.OrderedDict(client_id=np.int64, selected=np.bool_, value=self._value_type)
        )
        self._vector_type = tff.TensorType(np.float32, [rules.layout.width])
        # What is sent to the clients before they go on.
        self._sent_type = tff.to_type(
            collections.OrderedDict(
                average=self._vector_type,
                averaged=np.int32,
                round=np.int32,
                first=np.int32,
                stop=np.int32,
                subset=np.int32,
            )
        )
        self._data_type = tff.FederatedType(tff.SequenceType(model.record_type), tff.CLIENTS)
        self._clients_type = tff.FederatedType(self._client_type, tff.CLIENTS)
        self._mean = aggregation.ContributorMean().create(
            self._vector_type, tff.TensorType(np.float32)
        )

        @tff.federated_computation
        def initialize() -> Any:
            empty = tff.federated_value((), tff.SERVER)
            state = tff.learning.templates.LearningAlgorithmState(
                tff.federated_eval(initial_weights, tff.SERVER),
                empty,
                tff.federated_value(0, tff.SERVER),
                self._mean.initialize(),
                empty,
            )
            return tff.federated_zip(state)

        self.initialize = initialize
        self._state_type = initialize.type_signature.result.member
        self.begin = self._build_begin() if params.period() else None
        self.advance = self._build_advance()
        self.finish = self._build_finish()
        self.measure = self._build_measure()

    def _build_begin(self) -> Any:
        """Newly active clients: the average or the model they were given, without momentum."""
        model, rules, params = self._model, self._rules, self._params

        @tff.tensorflow.computation(model.weights_type, np.int32, self._client_type)
        def begin_client(weights: Any, round_num: Any, client: Any) -> Any:
            value = client["value"]
            fresh = collections.OrderedDict(
                value,
                momentum=tf.zeros_like(value["momentum"]),
                correction=tf.zeros_like(value["correction"]),
            )
            if params.design == 1:
                fresh["parameters"] = rules.layout.flatten(weights.trainable)
                fresh["statistics"] = _flatten(weights.non_trainable)
            new = tf.equal(round_num % params.period(), 0)
            value = tf.cond(new, lambda: fresh, lambda: value)
            return collections.OrderedDict(client, value=value)

        @tff.federated_computation(
            tff.FederatedType(model.weights_type, tff.SERVER),
            tff.FederatedType(np.int32, tff.SERVER),
            self._clients_type,
        )
        def begin(weights: Any, round_num: Any, clients: Any) -> Any:
            sent = tff.federated_broadcast(weights), tff.federated_broadcast(round_num)
            return tff.federated_map(begin_client, (*sent, clients))

        return begin

    def _build_advance(self) -> Any:
        """A segment: the last average, some steps, the next average."""
        model, rules, params = self._model, self._rules, self._params
        local, layout, interval = params.local, self._rules.layout, self._interval
        schedule = local.schedule()

        @tff.tensorflow.computation(
            self._sent_type, self._client_type, tff.SequenceType(model.record_type)
        )
        def advance_client(sent: Any, client: Any, dataset: Any) -> Any:
            built = model.instantiate()
            loop = local_training.build(built, parts.everything(built), local)

            @tf.function
            def run(sent: Any, client: Any, record: Any) -> Any:
                record = records.in_round(record, sent["round"])
                value = _receive(client["value"], sent["averaged"], sent["average"], layout)

                def rate(step: Any) -> Any:
                    done = tf.cast(sent["round"], tf.float32)
                    return schedule(done + tf.cast(step, tf.float32) / interval, 1 / interval)

                corrections = layout.split(value["correction"]) if rules.variance_reduced else ()

                def corrected(gradients: Any, variables: Any, initial: Any) -> Any:
                    return [g - c for g, c in zip(gradients, corrections)]

                sums = loop(
                    tff.learning.models.ModelWeights(
                        layout.split(value["parameters"]),
                        _split(value["statistics"], built.statistics),
                    ),
                    record,
                    rate,
                    corrected if rules.variance_reduced else None,
                    steps=(sent["first"], sent["stop"]),
                    momentum=layout.split(value["momentum"]) if local.momentum else (),
                )
                parameters = layout.flatten([v.read_value() for v in built.trainable])
                momentum = value["momentum"]
                if local.momentum:
                    momentum = layout.flatten([built.buffer(v) for v in built.trainable])
                return collections.OrderedDict(
                    client=collections.OrderedDict(
                        client_id=record["client_id"],
                        selected=client["selected"],
                        value=collections.OrderedDict(
                            value,
                            parameters=parameters,
                            momentum=momentum,
                            statistics=_flatten(built.statistics),
                        ),
                    ),
                    subset=layout.select(parameters, sent["subset"]),
                    weight=_weight(record, params.weighting),
                    sums=sums,
                )

            return run(sent, client, dataset.get_single_element())

        aggregate = self._mean

        @tff.federated_computation(
            tff.FederatedType(self._sent_type, tff.SERVER),
            aggregate.initialize.type_signature.result,
            self._clients_type,
            self._data_type,
        )
        def advance(sent: Any, state: Any, clients: Any, data: Any) -> Any:
            done = tff.federated_map(advance_client, (tff.federated_broadcast(sent), clients, data))
            average = aggregate.next(state, done.subset, done.weight)
            return average.result, average.state, tff.federated_sum(done.sums), done.client

        return advance

    def _build_finish(self) -> Any:
        """The last average reaches the clients; the mean of all local models."""
        model, layout, rules = self._model, self._rules.layout, self._rules
        whole = collections.OrderedDict(
            parameters=self._value_type.parameters, statistics=self._value_type.statistics
        )
        mean = aggregation.ContributorMean().create(tff.to_type(whole), tff.TensorType(np.float32))
        schedule, interval = self._params.local.schedule(), self._interval

        @tff.tensorflow.computation(
            self._sent_type,
            model.weights_type,
            self._client_type,
            tff.SequenceType(model.record_type),
        )
        def finish_client(sent: Any, weights: Any, client: Any, dataset: Any) -> Any:
            before = client["value"]
            value = _receive(before, sent["averaged"], sent["average"], layout)
            if rules.variance_reduced:
                done = tf.cast(sent["round"], tf.float32) + (interval - 1) / interval
                step = interval * schedule(done, 1 / interval)
                moved = value["parameters"] - before["parameters"]
                value["correction"] = before["correction"] + moved / step
            return collections.OrderedDict(
                client=collections.OrderedDict(client, value=value),
                # Differences: with no examples anywhere their mean is 0, and the model stays.
                whole=collections.OrderedDict(
                    parameters=value["parameters"] - layout.flatten(weights.trainable),
                    statistics=value["statistics"] - _flatten(weights.non_trainable),
                ),
                weight=_weight(dataset.get_single_element(), self._params.weighting),
            )

        @tff.tensorflow.computation(tff.to_type(whole), model.weights_type)
        def add(average: Any, weights: Any) -> Any:
            changes = tff.learning.models.ModelWeights(
                layout.split(average["parameters"]),
                _split(average["statistics"], weights.non_trainable),
            )
            return tf.nest.map_structure(lambda w, d: w + d, weights, changes)

        @tff.federated_computation(
            tff.FederatedType(self._sent_type, tff.SERVER),
            tff.FederatedType(model.weights_type, tff.SERVER),
            self._clients_type,
            self._data_type,
        )
        def finish(sent: Any, weights: Any, clients: Any, data: Any) -> Any:
            broadcast = tff.federated_broadcast(sent), tff.federated_broadcast(weights)
            done = tff.federated_map(finish_client, (*broadcast, clients, data))
            average = mean.next(mean.initialize(), done.whole, done.weight)
            return tff.federated_map(add, (average.result, weights)), done.client

        return finish

    def _build_measure(self) -> Any:
        """How far local models are from their mean: the mean squared distance."""
        model, layout = self._model, self._rules.layout

        @tff.tensorflow.computation(
            model.weights_type, self._client_type, tff.SequenceType(model.record_type)
        )
        def measure_client(weights: Any, client: Any, dataset: Any) -> Any:
            distance = client["value"]["parameters"] - layout.flatten(weights.trainable)
            weight = _weight(dataset.get_single_element(), self._params.weighting)
            return weight * tf.reduce_sum(tf.square(distance)), weight

        @tff.tensorflow.computation((np.float32, np.float32))
        def divide(totals: Any) -> Any:
            return tf.math.divide_no_nan(totals[0], totals[1])

        @tff.federated_computation(
            tff.FederatedType(model.weights_type, tff.SERVER), self._clients_type, self._data_type
        )
        def measure(weights: Any, clients: Any, data: Any) -> Any:
            sent = tff.federated_broadcast(weights)
            found = tff.federated_map(measure_client, (sent, clients, data))
            return tff.federated_map(divide, tff.federated_sum(found))

        return measure

    def build_losses(self) -> Any:
        """Losses of the local models and of the global one on clients' examples (figure 3)."""
        model, layout = self._model, self._rules.layout

        @tff.tensorflow.computation(
            model.weights_type, self._client_type, tff.SequenceType(model.record_type)
        )
        def losses_of_client(weights: Any, client: Any, dataset: Any) -> Any:
            built = model.instantiate()

            @tf.function
            def run(weights: Any, client: Any, record: Any) -> Any:
                value = client["value"]
                own = tff.learning.models.ModelWeights(
                    layout.split(value["parameters"]), _split(value["statistics"], built.statistics)
                )
                found = []
                x, y = record["x"][:LOSS_EXAMPLES], record["y"][:LOSS_EXAMPLES]
                for chosen in (own, weights):
                    built.assign(chosen)
                    logits = built.forward(built.preprocess(x), training=False)
                    found.append(tf.reduce_sum(built.losses(y, logits)))
                count = tf.cast(tf.shape(y)[0], tf.float32)
                mean = tf.math.divide_no_nan(found[0], count)
                return collections.OrderedDict(
                    smallest=tf.where(count > 0, mean, np.float32(np.inf)),
                    sums=tf.stack([found[0], found[1], count]),
                )

            return run(weights, client, dataset.get_single_element())

        @tff.tensorflow.computation(np.float32, tff.TensorType(np.float32, [3]))
        def report(smallest: Any, sums: Any) -> Any:
            return collections.OrderedDict(
                min_local_loss=smallest,
                mean_local_loss=tf.math.divide_no_nan(sums[0], sums[2]),
                global_loss=tf.math.divide_no_nan(sums[1], sums[2]),
            )

        @tff.federated_computation(
            tff.FederatedType(self._state_type, tff.SERVER), self._clients_type, self._data_type
        )
        def measure_losses(state: Any, clients: Any, data: Any) -> Any:
            sent = tff.federated_broadcast(state.global_model_weights)
            found = tff.federated_map(losses_of_client, (sent, clients, data))
            sums = tff.federated_sum(found.sums), tff.federated_min(found.smallest)
            return tff.federated_map(report, (sums[1], sums[0]))

        return measure_losses

    def build_round(self) -> Any:
        """The round as one computation."""
        pieces, interval = self, self._interval
        begins = self._params.period() > 0

        @tff.tensorflow.computation
        def no_average() -> Any:
            return tf.zeros([self._rules.layout.width])

        @tff.tensorflow.computation(np.int32)
        def next_number(round_num: Any) -> Any:
            return round_num + 1

        @tff.federated_computation(
            self.initialize.type_signature.result, self._clients_type, self._data_type
        )
        def next_fn(state: Any, clients: Any, data: Any) -> Any:
            weights, round_num = state.global_model_weights, state.client_work
            if begins:
                clients = pieces.begin(weights, round_num, clients)
            average, averaged = tff.federated_eval(no_average, tff.SERVER), NOTHING
            aggregator, sums = state.aggregator, []
            for first, stop, subset in pieces._rules.segments:
                sent = pieces._send(average, averaged, round_num, first, stop, subset)
                average, aggregator, part, clients = pieces.advance(sent, aggregator, clients, data)
                averaged = subset
                sums.append(part)
            sent = pieces._send(average, averaged, round_num, interval, interval, NOTHING)
            new_weights, clients = pieces.finish(sent, weights, clients, data)
            discrepancy = pieces.measure(new_weights, clients, data)
            new_state = tff.learning.templates.LearningAlgorithmState(
                new_weights,
                state.distributor,
                tff.federated_map(next_number, round_num),
                aggregator,
                state.finalizer,
            )
            metrics = tff.federated_map(
                pieces.build_metrics(), (tff.federated_zip(tuple(sums)), discrepancy)
            )
            return stateful_process.Output(
                tff.federated_zip(new_state),
                clients,
                tff.federated_zip(collections.OrderedDict(client_work=metrics)),
            )

        return next_fn

    def _send(
        self, average: Any, averaged: int, round_num: Any, first: int, stop: int, subset: int
    ) -> Any:
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

    def build_metrics(self) -> Any:
        """The segments' sums and the discrepancy -> metrics."""
        sums_type = self.advance.type_signature.result[2].member
        count = len(self._rules.segments)

        @tff.tensorflow.computation(tff.to_type((sums_type,) * count), np.float32)
        def metrics(sums: Any, discrepancy: Any) -> Any:
            return _metrics(list(sums), discrepancy)

        return metrics

    def build_steps(self) -> Callable[..., Any]:
        """The round as a Python function that calls one computation after the other."""

        def next_fn(state: Any, clients: Any, data: Any) -> Any:
            order = {int(c["client_id"]): i for i, c in enumerate(clients)}

            def sort(found: Any) -> Any:
                # Several workers return clients in another order.
                return sorted(found, key=lambda c: order[int(c["client_id"])])

            weights, round_num = state.global_model_weights, np.int32(state.client_work)
            if self._params.period():
                clients = sort(self.begin(weights, round_num, clients))
            average, averaged = np.zeros(self._rules.layout.width, np.float32), NOTHING
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

            for first, stop, subset in self._rules.segments:
                sent = send(first, stop, subset)
                average, aggregator, part, clients = self.advance(sent, aggregator, clients, data)
                clients, averaged = sort(clients), subset
                sums.append(part)
            sent = send(self._interval, self._interval, NOTHING)
            new_weights, clients = self.finish(sent, weights, clients, data)
            clients = sort(clients)
            discrepancy = self.measure(new_weights, clients, data)
            new_state = tff.learning.templates.LearningAlgorithmState(
                new_weights,
                state.distributor,
                np.int32(round_num + 1),
                aggregator,
                state.finalizer,
            )
            metrics = {name: np.asarray(v) for name, v in _metrics(sums, discrepancy).items()}
            return stateful_process.Output(new_state, clients, {"client_work": metrics})

        return next_fn


LOSS_EXAMPLES = 256


def _metrics(sums: Sequence[Any], discrepancy: Any) -> Any:
    totals = {name: sum(part[name] for part in sums) for name in ("loss", "correct", "examples")}
    return collections.OrderedDict(
        train_loss=tf.math.divide_no_nan(totals["loss"], totals["examples"]),
        train_accuracy=tf.math.divide_no_nan(totals["correct"], totals["examples"]),
        train_examples=tf.convert_to_tensor(totals["examples"]),
        discrepancy=tf.convert_to_tensor(discrepancy),
    )


def _receive(value: Any, subset: Any, average: Any, layout: subsets.Layout) -> Any:
    """A client's state with the average of a subset in its model."""
    parameters = tf.cond(
        tf.equal(subset, NOTHING),
        lambda: value["parameters"],
        lambda: layout.replace(value["parameters"], subset, average),
    )
    return collections.OrderedDict(value, parameters=tf.ensure_shape(parameters, [layout.size]))


def _weight(record: Any, weighting: str) -> Any:
    examples = tf.cast(tf.shape(record["y"])[0], tf.float32)
    return examples if weighting == "examples" else tf.math.sign(examples)


def _flatten(tensors: Sequence[Any]) -> Any:
    flat = [tf.reshape(tensor, [-1]) for tensor in tensors]
    return tf.concat(flat, 0) if flat else tf.zeros([0])


def _split(vector: Any, like: Sequence[Any]) -> list[Any]:
    sizes = [int(np.prod(tensor.shape)) for tensor in like]
    parts_found = tf.split(vector, sizes) if sizes else []
    return [tf.reshape(part, tensor.shape) for part, tensor in zip(parts_found, like)]


def whole_model(model: ModelSpec) -> subsets.Layout:
    """One subset that holds everything."""
    shapes = shapes_of(model)
    return subsets.Layout(shapes, [np.array(0, np.int32)] * len(shapes), 1)
