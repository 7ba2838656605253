"""The TFF computations of which a round of `averaging` consists; each has one aggregation at most.

advance: the last average reaches the clients, they make some steps, the next subset is averaged
finish:  the last average reaches the clients; the mean of all local models

`averaging_measures` has those that only look at the local models.
"""

from __future__ import annotations

import dataclasses
import functools
import math
from collections import OrderedDict
from collections.abc import Sequence
from typing import Callable

import numpy as np

from tff_partial.core import aggregation, client_data, local_optimizers, local_training, tracing
from tff_partial.core.lazy import tf, tff
from tff_partial.core.local_optimizers import LocalOptimizer
from tff_partial.core.local_training import LocalTraining, TrainFn
from tff_partial.core.model import Model, ModelSpec
from tff_partial.core.part import everything
from tff_partial.core.types import Computation, Federated, Record, Structure, Tensor, Weights
from tff_partial.processes.averaging_rules import NOTHING, Rules
from tff_partial.processes.client_work import client_weight
from tff_partial.processes.parameter_subsets import Layout, flatten_floats, split_floats


@dataclasses.dataclass(frozen=True)
class Setting:
    """What the computations are built for.

    Attributes:
      model: The model.
      local: How a client trains.
      weighting: Clients count by their `examples`, or are `uniform`.
      rules: What is averaged when.
      measure_steps: Whether the discrepancy is measured after every segment.
      measure_losses: Whether rounds have losses.
    """

    model: ModelSpec
    local: LocalTraining
    weighting: str
    rules: Rules
    measure_steps: bool = False
    measure_losses: bool = True

    @functools.cached_property
    def initial_client_state(self) -> Computation:
        """The computation of what a client keeps that was never active."""

        @tff.tensorflow.computation
        def initial_client_state() -> Structure:
            model, nothing = self.model.instantiate(), tf.zeros([0])
            optimizer = local_optimizers.create(model, model.trainable, self.local)
            parameters = self.rules.layout.flatten(model.trainable)
            return OrderedDict(
                parameters=parameters,
                momentum=tf.zeros([sum(math.prod(v.shape) for v in optimizer.state)]),
                statistics=flatten_floats(model.statistics),
                correction=tf.zeros_like(parameters) if self.rules.variance_reduced else nothing,
                **({"anchor": parameters} if self.rules.pull else {}),
            )

        return initial_client_state

    @property
    def sent_type(self) -> tff.Type:
        """TFF type of what clients receive: the last average, the round, the segment."""
        average = tff.TensorType(np.float32, [self.rules.layout.width])
        return tff.to_type((average, np.int32, np.int32))

    def over_clients(self, *server_types: tff.Type) -> Callable[..., Computation]:
        """Decorate a computation of values at the server, clients' states and their data."""
        client_type = OrderedDict(
            client_id=np.int64,
            selected=np.bool_,
            measured=np.bool_,
            value=self.initial_client_state.type_signature.result,
        )
        return tff.federated_computation(
            *(tff.FederatedType(type_, tff.SERVER) for type_ in server_types),
            tff.FederatedType(client_type, tff.CLIENTS),
            tff.FederatedType(self.model.data_type, tff.CLIENTS),
        )

    def learning_rate(self, round_num: Tensor, step: Tensor) -> Tensor:
        """Return eta in a step of a round."""
        interval = self.rules.interval
        done = tf.cast(round_num, tf.float32) + tf.cast(step, tf.float32) / interval
        return self.local.schedule()(done, 1 / interval)

    def weights(self, value: Structure, like: Sequence[Tensor]) -> Weights:
        """Return `parameters` and `statistics` as weights, the latter in the shapes of `like`."""
        return tff.learning.models.ModelWeights(
            self.rules.layout.split(value["parameters"]), split_floats(value["statistics"], like)
        )


def build_advance(setting: Setting, mean: tff.templates.AggregationProcess) -> Computation:
    """Return a segment: the last average, some steps, the next average."""
    layout, segments = setting.rules.layout, setting.rules.segments
    varies, pull = setting.rules.intervals is not None, setting.rules.pull
    # The subset of the average before each segment, and the segment.
    averaged_before = [NOTHING if varies else s[2] for s in segments]
    table = [(before, *s) for before, s in zip([NOTHING, *averaged_before], segments)]

    @tracing.computation("advance_client", tracing.installed_for(setting.model))
    def advance_client(sent: Structure, client: Structure, dataset: Structure) -> Structure:
        model = setting.model.instantiate(setting.local.precision, initial=False)
        optimizer = local_optimizers.create(model, model.trainable, setting.local, pull)
        loop = local_training.build(model, everything(model), setting.local, pull, optimizer)

        @tf.function(autograph=False)
        def run(sent: Structure, client: Structure, record: Record) -> Structure:
            average, round_num, segment = sent
            averaged, first, stop, subset = tf.unstack(tf.gather(table, segment))
            record = client_data.in_round(record, round_num)
            value = receive(client["value"], averaged, average, layout)
            eta = functools.partial(setting.learning_rate, round_num)
            sums, kept = _train(
                setting, model, (loop, optimizer), value, record, eta, (first, stop)
            )
            return OrderedDict(
                client=OrderedDict(client, client_id=record["client_id"], value=kept),
                subset=layout.select(kept["parameters"], subset),
                weight=client_weight(record, setting.weighting),
                sums=sums,
            )

        return run(sent, client, dataset.get_single_element())

    @setting.over_clients(setting.sent_type, mean.initialize.type_signature.result.member)
    def advance(
        sent: Federated, state: Federated, clients: Federated, data: Federated
    ) -> Federated:
        done = tff.federated_map(advance_client, (tff.federated_broadcast(sent), clients, data))
        average = mean.next(state, done.subset, done.weight)
        return average.result, average.state, tff.federated_sum(done.sums), done.client

    return advance


def receive(value: Structure, subset: Tensor, average: Tensor, layout: Layout) -> Structure:
    """Return a client's state with the average of a subset in its model; nothing for `NOTHING`."""

    def with_average(parameters: Tensor) -> Tensor:
        received = tf.cond(
            tf.equal(subset, NOTHING),
            lambda: parameters,
            lambda: layout.replace(parameters, subset, average),
        )
        return tf.ensure_shape(received, [layout.size])

    names = [name for name in ("parameters", "anchor") if name in value]
    return OrderedDict(value, **{name: with_average(value[name]) for name in names})


def _train(
    setting: Setting,
    model: Model,
    training: tuple[TrainFn, LocalOptimizer],
    value: Structure,
    record: Record,
    learning_rate: Callable[[Tensor], Tensor],
    steps: tuple[Tensor, Tensor],
) -> tuple[Structure, Structure]:
    """Make the steps of a segment; return the sums of metrics and what the client keeps."""
    layout, (loop, optimizer) = setting.rules.layout, training
    sums = loop(
        setting.weights(value, model.statistics),
        record,
        learning_rate,
        _slope(setting, value),
        steps,
        split_floats(value["momentum"], optimizer.state),
    )
    kept = OrderedDict(
        value,
        parameters=layout.flatten([v.read_value() for v in model.trainable]),
        momentum=flatten_floats(optimizer.state),
        statistics=flatten_floats(model.statistics),
    )
    return sums, kept


def _slope(setting: Setting, value: Structure) -> Sequence[Tensor]:
    """Return the gradient of the algorithm's own terms at a client's model."""
    rules = setting.rules
    if rules.variance_reduced:
        return rules.layout.split((setting.local.momentum - 1) * value["correction"])
    if rules.pull:
        return rules.layout.split(rules.pull * (value["parameters"] - value["anchor"]))
    return ()


def build_finish(setting: Setting) -> Computation:
    """Return the end of a round: the last average reaches clients; the mean of all models."""
    layout, last_subset = setting.rules.layout, setting.rules.segments[-1][2]
    scalar = tff.TensorType(np.float32)

    @tff.tensorflow.computation
    def finish_client(
        sent: Structure, weights: Weights, client: Structure, dataset: Structure
    ) -> Structure:
        average, round_num, _ = sent
        value = receive(client["value"], last_subset, average, layout)
        if setting.rules.variance_reduced:
            value["correction"] = _correction(setting, client["value"], value, round_num)
        # Differences: with no examples anywhere their mean is 0, and the model stays.
        moved = OrderedDict(
            parameters=value["parameters"] - layout.flatten(weights.trainable),
            statistics=value["statistics"] - flatten_floats(weights.non_trainable),
        )
        weight = client_weight(dataset.get_single_element(), setting.weighting)
        return OrderedDict(client, value=value), moved, weight

    @tff.tensorflow.computation
    def add(average: Structure, weights: Weights) -> Weights:
        changes = setting.weights(average, weights.non_trainable)
        return tf.nest.map_structure(
            lambda w, d: w + d if w.dtype.is_floating else w, weights, changes
        )

    @setting.over_clients(setting.sent_type, setting.model.weights_type)
    def finish(
        sent: Federated, weights: Federated, clients: Federated, data: Federated
    ) -> Federated:
        broadcast = tff.federated_broadcast(sent), tff.federated_broadcast(weights)
        client, moved, weight = tff.federated_map(finish_client, (*broadcast, clients, data))
        mean = aggregation.ContributorMean().create(moved.type_signature.member, scalar)
        average = mean.next(mean.initialize(), moved, weight)
        return tff.federated_map(add, (average.result, weights)), client

    return finish


def _correction(setting: Setting, before: Structure, after: Structure, round_num: Tensor) -> Tensor:
    """Return VRL-SGD's delta_i after the last average of a round."""
    interval = setting.rules.interval
    step = interval * setting.learning_rate(round_num, interval - 1)
    moved = after["parameters"] - before["parameters"]
    return (1 - setting.local.momentum) * (before["correction"] + moved / step)
