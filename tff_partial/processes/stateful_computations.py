"""The TFF computations of which a round of `stateful` consists."""

from __future__ import annotations

import dataclasses
from collections import OrderedDict
from collections.abc import Sequence
from typing import Optional

from tff_partial.core import client_data, local_training, sgd, tracing
from tff_partial.core.lazy import tf, tff
from tff_partial.core.local_training import LocalTraining, TrainFn
from tff_partial.core.model import Model, ModelSpec
from tff_partial.core.part import everything
from tff_partial.core.types import Computation, Metrics, Record, Structure, Tensor, Weights
from tff_partial.core.vectors import Vector, choose, unwrap, wrap, zeros
from tff_partial.processes.client_work import client_weight
from tff_partial.processes.stateful_rules import Client, Rules, Server, Update


def build_client_update(
    model: ModelSpec, local: LocalTraining, rules: Rules, weighting: str
) -> Computation:
    """Return ((weights, sent, round), client's state, data) -> what comes of a client's round."""
    schedule = local.schedule()

    @tracing.computation("client_update", tracing.installed_for(model))
    def client_update(broadcast: Structure, client: Structure, dataset: Structure) -> Structure:
        built = model.instantiate(local.precision, initial=False)
        loop = local_training.build(built, everything(built), local, rules.pull)

        @tf.function(autograph=False)
        def run(broadcast: Structure, client: Structure, record: Record) -> Structure:
            weights, sent, round_num = broadcast
            record = client_data.in_round(record, round_num)
            x, eta = Vector(weights.trainable), schedule(round_num)
            training = _Training(built, loop, rules.pull, x, weights.non_trainable, record, eta)
            num_steps = tf.maximum(local.num_steps(tf.shape(record["y"])[0]), 1)
            view = Client(
                weights=x,
                sent=wrap(sent),
                state=wrap(client["value"]),
                selected=client["selected"],
                round_num=round_num,
                learning_rate=schedule,
                steps=local.effective_steps(num_steps),
                momentum=local.momentum,
                train=training.run,
            )
            return _outcome(training, client, rules.client(view), weighting)

        return run(broadcast, client, dataset.get_single_element())

    return client_update


@dataclasses.dataclass(eq=False)
class _Training:
    """Local SGD of a client in a round: `run` is `Client.train`, `sums` are its metrics."""

    model: Model
    loop: TrainFn
    pull: float
    start: Vector
    statistics: Sequence[Tensor]
    record: Record
    learning_rate: Tensor
    sums: Metrics = dataclasses.field(default_factory=dict)

    def run(self, start: Vector, slope: Optional[Vector] = None) -> tuple[Vector, Vector]:
        if self.pull and start is not self.start:
            beyond = self.pull * (start - self.start)
            slope = slope + beyond if slope else beyond
        slope, variables = slope or Vector(()), self.model.trainable
        initial = tff.learning.models.ModelWeights(start.tensors, self.statistics)
        self.sums = self.loop(initial, self.record, self.learning_rate, slope.tensors)
        if self.pull:
            slope = Vector(self.model.buffer(v, sgd.SLOPE).read_value() for v in variables)
        return Vector(v.read_value() for v in variables), slope


def _outcome(training: _Training, client: Structure, update: Update, weighting: str) -> Structure:
    """Return a client's update with its weight, what is summed, its state and its metrics."""
    record = training.record
    has_examples = tf.shape(record["y"])[0] > 0
    counts = tf.cast(tf.logical_and(client["selected"], has_examples), tf.float32)
    moved = update.model - training.start
    statistics = [v - w for v, w in zip(training.model.statistics, training.statistics)]
    # With uniform weights the sum is known from the mean.
    summed = {"rules": update.summed, "moved": moved if weighting == "examples" else Vector(())}
    # A client without examples has learnt nothing.
    value = unwrap(choose(has_examples, update.state, wrap(client["value"])))
    return OrderedDict(
        update=tff.learning.models.ModelWeights(moved.tensors, statistics),
        weight=counts * client_weight(record, weighting),
        summed=OrderedDict(clients=counts, **unwrap(choose(counts > 0, summed, zeros(summed)))),
        client_state=OrderedDict(client, client_id=record["client_id"], value=value),
        sums=tf.nest.map_structure(lambda t: counts * t, training.sums),
    )


def build_server_update(rules: Rules, weighting: str, *types: tff.Type) -> Computation:
    """Return (weights, state, mean update, sums), of these types -> new weights and state."""

    # With types given, parameters have their names, which the C++ worker's order of sums follows.
    @tff.tensorflow.computation(*types)
    def server_update(
        weights: Weights, state: Structure, update: Weights, sums: Structure
    ) -> Structure:
        x, before, count = Vector(weights.trainable), wrap(state), sums["clients"]
        mean = Vector(update.trainable)
        moved = wrap(sums["moved"]) if weighting == "examples" else count * mean
        new, new_state = rules.server(Server(x, before, mean, moved, wrap(sums["rules"]), count))
        # Where all clients were late, nothing has been learnt that a drift would correct.
        kept = choose(count > 0, {"model": new, "state": new_state}, {"model": x, "state": before})
        statistics = [w + d for w, d in zip(weights.non_trainable, update.non_trainable)]
        model_weights = tff.learning.models.ModelWeights(kept["model"].tensors, statistics)
        return model_weights, unwrap(kept["state"])

    return server_update
