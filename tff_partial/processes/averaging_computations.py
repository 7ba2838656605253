"""The TFF computations of which a round of `averaging_process` consists.

Each has at most one aggregation.

advance: the last average reaches the clients, they make some steps, the next subset is averaged
finish:  the last average reaches the clients; the mean of all local models
measure: how far the local models are from their mean
losses:  of the local models and of the global one, on all examples of the clients
"""

from __future__ import annotations

import collections
import dataclasses
from collections.abc import Sequence
from typing import Any

import numpy as np

from tff_partial.core import aggregation, client_data, local_training
from tff_partial.core.lazy import tf, tff
from tff_partial.core.model import ModelSpec
from tff_partial.layers import parts
from tff_partial.processes import learning, parameter_subsets

NOTHING = -1  # the subset of an average that has not been made
LOSS_BATCH = 256


@dataclasses.dataclass(frozen=True)
class Rules:
    """What is averaged when.

    Attributes:
      layout: The subsets.
      segments: (First step, step after the last, subset) of each segment of a round.
      variance_reduced: Whether clients keep VRL-SGD's correction.
    """

    layout: parameter_subsets.Layout
    segments: Sequence[tuple[int, int, int]]
    variance_reduced: bool = False


class Computations:
    """The computations for a model, hyperparameters and rules."""

    def __init__(self, model: ModelSpec, params: Any, rules: Rules) -> None:
        self._model, self.params, self.rules = model, params, rules
        self.interval = params.interval()
        initial_weights = learning.build_initial_weights(model)

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
            collections.OrderedDict(
                client_id=np.int64, selected=np.bool_, measured=np.bool_, value=self._value_type
            )
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
        self.data_type = tff.FederatedType(tff.SequenceType(model.record_type), tff.CLIENTS)
        self.clients_type = tff.FederatedType(self._client_type, tff.CLIENTS)
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
        self.state_type = initialize.type_signature.result.member
        self.advance = self._build_advance()
        self.finish = self._build_finish()
        self.measure = self._build_measure()
        self.losses = self._build_losses()

    def _build_advance(self) -> Any:
        """A segment: the last average, some steps, the next average."""
        model, rules, params = self._model, self.rules, self.params
        local, layout, interval = params.local, self.rules.layout, self.interval
        schedule = local.schedule()

        @tff.tensorflow.computation(
            self._sent_type, self._client_type, tff.SequenceType(model.record_type)
        )
        def advance_client(sent: Any, client: Any, dataset: Any) -> Any:
            built = model.instantiate()
            loop = local_training.build(built, parts.everything(built), local)

            @tf.function
            def run(sent: Any, client: Any, record: Any) -> Any:
                record = client_data.in_round(record, sent["round"])
                value = _receive(client["value"], sent["averaged"], sent["average"], layout)

                def rate(step: Any) -> Any:
                    done = tf.cast(sent["round"], tf.float32)
                    return schedule(done + tf.cast(step, tf.float32) / interval, 1 / interval)

                slope = (
                    layout.split((local.momentum - 1) * value["correction"])
                    if rules.variance_reduced
                    else ()
                )
                sums = loop(
                    tff.learning.models.ModelWeights(
                        layout.split(value["parameters"]),
                        _split(value["statistics"], built.statistics),
                    ),
                    record,
                    rate,
                    slope,
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
                        measured=client["measured"],
                        value=collections.OrderedDict(
                            value,
                            parameters=parameters,
                            momentum=momentum,
                            statistics=_flatten(built.statistics),
                        ),
                    ),
                    subset=layout.select(parameters, sent["subset"]),
                    weight=learning.client_weight(record, params.weighting),
                    sums=sums,
                )

            return run(sent, client, dataset.get_single_element())

        aggregate = self._mean

        @tff.federated_computation(
            tff.FederatedType(self._sent_type, tff.SERVER),
            aggregate.initialize.type_signature.result,
            self.clients_type,
            self.data_type,
        )
        def advance(sent: Any, state: Any, clients: Any, data: Any) -> Any:
            done = tff.federated_map(advance_client, (tff.federated_broadcast(sent), clients, data))
            average = aggregate.next(state, done.subset, done.weight)
            return average.result, average.state, tff.federated_sum(done.sums), done.client

        return advance

    def _build_finish(self) -> Any:
        """The last average reaches the clients; the mean of all local models."""
        model, layout, rules = self._model, self.rules.layout, self.rules
        whole = collections.OrderedDict(
            parameters=self._value_type.parameters, statistics=self._value_type.statistics
        )
        mean = aggregation.ContributorMean().create(tff.to_type(whole), tff.TensorType(np.float32))
        local, interval = self.params.local, self.interval
        schedule = local.schedule()

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
                value["correction"] = (1 - local.momentum) * (before["correction"] + moved / step)
            return collections.OrderedDict(
                client=collections.OrderedDict(client, value=value),
                # Differences: with no examples anywhere their mean is 0, and the model stays.
                whole=collections.OrderedDict(
                    parameters=value["parameters"] - layout.flatten(weights.trainable),
                    statistics=value["statistics"] - _flatten(weights.non_trainable),
                ),
                weight=learning.client_weight(dataset.get_single_element(), self.params.weighting),
            )

        @tff.tensorflow.computation(tff.to_type(whole), model.weights_type)
        def add(average: Any, weights: Any) -> Any:
            changes = tff.learning.models.ModelWeights(
                layout.split(average["parameters"]),
                _split(average["statistics"], weights.non_trainable),
            )
            return tf.nest.map_structure(
                lambda w, d: w + d if w.dtype.is_floating else w, weights, changes
            )

        @tff.federated_computation(
            tff.FederatedType(self._sent_type, tff.SERVER),
            tff.FederatedType(model.weights_type, tff.SERVER),
            self.clients_type,
            self.data_type,
        )
        def finish(sent: Any, weights: Any, clients: Any, data: Any) -> Any:
            broadcast = tff.federated_broadcast(sent), tff.federated_broadcast(weights)
            done = tff.federated_map(finish_client, (*broadcast, clients, data))
            average = mean.next(mean.initialize(), done.whole, done.weight)
            return tff.federated_map(add, (average.result, weights)), done.client

        return finish

    def _build_measure(self) -> Any:
        """How far local models are from their mean: the mean squared distance."""
        model, layout = self._model, self.rules.layout

        @tff.tensorflow.computation(
            model.weights_type, self._client_type, tff.SequenceType(model.record_type)
        )
        def measure_client(weights: Any, client: Any, dataset: Any) -> Any:
            distance = client["value"]["parameters"] - layout.flatten(weights.trainable)
            weight = learning.client_weight(dataset.get_single_element(), self.params.weighting)
            return weight * tf.reduce_sum(tf.square(distance)), weight

        @tff.tensorflow.computation((np.float32, np.float32))
        def divide(totals: Any) -> Any:
            return tf.math.divide_no_nan(totals[0], totals[1])

        @tff.federated_computation(
            tff.FederatedType(model.weights_type, tff.SERVER), self.clients_type, self.data_type
        )
        def measure(weights: Any, clients: Any, data: Any) -> Any:
            sent = tff.federated_broadcast(weights)
            found = tff.federated_map(measure_client, (sent, clients, data))
            return tff.federated_map(divide, tff.federated_sum(found))

        return measure

    def _build_losses(self) -> Any:
        """Losses of the local models and of the global one on clients' examples (figure 3).

        Of clients that are to be measured; others cost nothing.
        """
        model, layout = self._model, self.rules.layout

        @tff.tensorflow.computation(
            model.weights_type, self._client_type, tff.SequenceType(model.record_type)
        )
        def losses_of_client(weights: Any, client: Any, dataset: Any) -> Any:
            built = model.instantiate()

            def loss(weights: Any, record: Any) -> Any:
                built.assign(weights)
                total = tf.zeros([])
                for start in tf.range(0, tf.shape(record["y"])[0], LOSS_BATCH):
                    tf.autograph.experimental.set_loop_options(parallel_iterations=1)
                    x, y = (record[name][start : start + LOSS_BATCH] for name in ("x", "y"))
                    with built.batch_statistics(static_only=True):
                        logits = built.forward(built.preprocess(x), training=False)
                    total += tf.reduce_sum(built.losses(y, logits))
                return total

            @tf.function
            def run(weights: Any, client: Any, record: Any) -> Any:
                value = client["value"]
                own = tff.learning.models.ModelWeights(
                    layout.split(value["parameters"]), _split(value["statistics"], built.statistics)
                )
                count, sums = tf.cast(tf.shape(record["y"])[0], tf.float32), tf.zeros([3])
                if client["measured"]:
                    sums = tf.stack([loss(own, record), loss(weights, record), count])
                mean = tf.math.divide_no_nan(sums[0], count)
                return collections.OrderedDict(
                    smallest=tf.where(count > 0, mean, np.float32(np.inf)), sums=sums
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
            tff.FederatedType(model.weights_type, tff.SERVER), self.clients_type, self.data_type
        )
        def measure_losses(weights: Any, clients: Any, data: Any) -> Any:
            sent = tff.federated_broadcast(weights)
            found = tff.federated_map(losses_of_client, (sent, clients, data))
            smallest, sums = tff.federated_min(found.smallest), tff.federated_sum(found.sums)
            return tff.federated_map(report, (smallest, sums))

        return measure_losses


def _receive(value: Any, subset: Any, average: Any, layout: parameter_subsets.Layout) -> Any:
    """A client's state with the average of a subset in its model."""
    parameters = tf.cond(
        tf.equal(subset, NOTHING),
        lambda: value["parameters"],
        lambda: layout.replace(value["parameters"], subset, average),
    )
    return collections.OrderedDict(value, parameters=tf.ensure_shape(parameters, [layout.size]))


def _flatten(tensors: Sequence[Any]) -> Any:
    """The float tensors as one vector."""
    flat = [tf.reshape(tensor, [-1]) for tensor in tensors if tensor.dtype.is_floating]
    return tf.concat(flat, 0) if flat else tf.zeros([0])


def _split(vector: Any, like: Sequence[Any]) -> list[Any]:
    """What `_flatten` made one; tensors that are not float are those of `like`."""
    floats = [tensor for tensor in like if tensor.dtype.is_floating]
    sizes = [int(np.prod(tensor.shape)) for tensor in floats]
    found = iter(tf.split(vector, sizes) if sizes else [])
    return [tf.reshape(next(found), t.shape) if t.dtype.is_floating else t for t in like]
