"""The TFF computations of which a round of `stateful` consists."""

from __future__ import annotations

import collections
from typing import Callable, Optional

from tff_partial.core import client_data, local_training, sgd
from tff_partial.core.lazy import tf, tff
from tff_partial.core.local_training import LocalTraining
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
    learning_rate = local.schedule()

    @tff.tensorflow.computation
    def client_update(broadcast: Structure, client: Structure, dataset: Structure) -> Structure:
        built = model.instantiate()
        loop = local_training.build(built, everything(built), local, rules.pull)

        @tf.function
        def run(broadcast: Structure, client: Structure, record: Record) -> Structure:
            weights, sent, round_num = broadcast
            record = client_data.in_round(record, round_num)
            eta = learning_rate(round_num)
            training = _Training(built, loop, rules.pull, weights, record, eta)
            steps = tf.maximum(local.num_steps(tf.shape(record["y"])[0]), 1)
            update = rules.client(
                Client(
                    training.start,
                    wrap(sent),
                    wrap(client["value"]),
                    client["selected"],
                    round_num,
                    learning_rate,
                    local.effective_steps(steps),
                    local.momentum,
                    training.run,
                )
            )
            return _outcome(training, client, record, update, weighting)

        return run(broadcast, client, dataset.get_single_element())

    return client_update


class _Training:
    """Local SGD of a client in a round.

    Attributes:
      start: The server's model.
      sums: Sums of loss, correct predictions and examples, after `run`.
    """

    def __init__(
        self,
        model: Model,
        loop: Callable[..., Metrics],
        pull: float,
        weights: Weights,
        record: Record,
        learning_rate: Tensor,
    ) -> None:
        self.start = Vector(weights.trainable)
        self.sums: Metrics = {}
        self._model, self._statistics = model, weights.non_trainable
        self._loop, self._pull = loop, pull
        self._record, self._learning_rate = record, learning_rate

    def run(self, start: Vector, slope: Optional[Vector] = None) -> tuple[Vector, Vector]:
        """Do what `Client.train` says."""
        if self._pull and start is not self.start:
            beyond = self._pull * (start - self.start)
            slope = slope + beyond if slope else beyond
        initial = tff.learning.models.ModelWeights(start.tensors, self._statistics)
        slope = slope or Vector(())
        self.sums = self._loop(initial, self._record, self._learning_rate, slope.tensors)
        variables = self._model.trainable
        if self._pull:
            slope = Vector(self._model.buffer(v, sgd.SLOPE).read_value() for v in variables)
        return Vector(v.read_value() for v in variables), slope

    def delta(self, trained: Vector) -> Weights:
        """Return how far a model, and the statistics, are from the server's."""
        statistics = [v - w for v, w in zip(self._model.statistics, self._statistics)]
        return tff.learning.models.ModelWeights((trained - self.start).tensors, statistics)


def _outcome(
    training: _Training, client: Structure, record: Record, update: Update, weighting: str
) -> Structure:
    """Return a client's update with its weight, what is summed, its state and its metrics."""
    has_examples = tf.shape(record["y"])[0] > 0
    counts = tf.cast(tf.logical_and(client["selected"], has_examples), tf.float32)
    delta = training.delta(update.model)
    # With uniform weights the sum is known from the mean.
    moved = Vector(delta.trainable if weighting == "examples" else ())
    summed = {"rules": update.summed, "moved": moved}
    # A client without examples has learnt nothing.
    value = choose(has_examples, update.state, wrap(client["value"]))
    return collections.OrderedDict(
        update=delta,
        weight=counts * client_weight(record, weighting),
        summed=collections.OrderedDict(
            clients=counts, **unwrap(choose(counts > 0, summed, zeros(summed)))
        ),
        client_state=collections.OrderedDict(
            client, client_id=record["client_id"], value=unwrap(value)
        ),
        sums=tf.nest.map_structure(lambda t: counts * t, training.sums),
    )


def build_server_update(rules: Rules, weighting: str) -> Computation:
    """Return (weights, state, mean update, sums) -> new weights and state."""

    @tff.tensorflow.computation
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
