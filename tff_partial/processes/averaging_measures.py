"""The TFF computations that look at the local models of a round of `averaging`."""

from __future__ import annotations

from collections import OrderedDict

import numpy as np

from tff_partial.core import loops, tracing
from tff_partial.core.lazy import tf, tff
from tff_partial.core.model import Model
from tff_partial.core.types import Computation, Federated, Record, Structure, Tensor, Weights
from tff_partial.processes.averaging_computations import Setting, receive
from tff_partial.processes.client_work import client_weight

_LOSS_BATCH = 256


def build_discrepancy(setting: Setting) -> Computation:
    """Return how far local models are from their mean: the mean squared distance."""

    @tff.tensorflow.computation
    def distance(weights: Weights, client: Structure, dataset: Structure) -> Structure:
        mean = setting.rules.layout.flatten(weights.trainable)
        weight = client_weight(dataset.get_single_element(), setting.weighting)
        return weight * tf.reduce_sum(tf.square(client["value"]["parameters"] - mean)), weight

    @tff.tensorflow.computation((np.float32, np.float32))
    def divide(totals: tuple[Tensor, Tensor]) -> Tensor:
        return tf.math.divide_no_nan(totals[0], totals[1])

    @setting.over_clients(setting.model.weights_type)
    def discrepancy(weights: Federated, clients: Federated, data: Federated) -> Federated:
        sent = tff.federated_broadcast(weights)
        distances = tff.federated_map(distance, (sent, clients, data))
        return tff.federated_map(divide, tff.federated_sum(distances))

    return discrepancy


def build_mean(setting: Setting) -> Computation:
    """Return the mean of the local models once they have received a segment's average, [size]."""

    @tff.tensorflow.computation
    def weighted(sent: Structure, client: Structure, dataset: Structure) -> Structure:
        weight = client_weight(dataset.get_single_element(), setting.weighting)
        return weight * _received(setting, sent, client), weight

    @tff.tensorflow.computation(
        (tff.TensorType(np.float32, [setting.rules.layout.size]), np.float32)
    )
    def divide(totals: tuple[Tensor, Tensor]) -> Tensor:
        return tf.math.divide_no_nan(totals[0], totals[1])

    @setting.over_clients(setting.sent_type)
    def mean(sent: Federated, clients: Federated, data: Federated) -> Federated:
        at_clients = tff.federated_broadcast(sent)
        totals = tff.federated_map(weighted, (at_clients, clients, data))
        return tff.federated_map(divide, tff.federated_sum(totals))

    return mean


def build_step_discrepancy(setting: Setting) -> Computation:
    """Return how far local models are from that mean: the mean squared distance (figure 2)."""

    @tff.tensorflow.computation
    def distance(sent: Structure, mean: Tensor, client: Structure, dataset: Structure) -> Structure:
        weight = client_weight(dataset.get_single_element(), setting.weighting)
        return weight * tf.reduce_sum(tf.square(_received(setting, sent, client) - mean)), weight

    @tff.tensorflow.computation((np.float32, np.float32))
    def divide(totals: tuple[Tensor, Tensor]) -> Tensor:
        return tf.math.divide_no_nan(totals[0], totals[1])

    mean_type = tff.TensorType(np.float32, [setting.rules.layout.size])

    @setting.over_clients(setting.sent_type, mean_type)
    def discrepancy(
        sent: Federated, mean: Federated, clients: Federated, data: Federated
    ) -> Federated:
        broadcast = tff.federated_broadcast(sent), tff.federated_broadcast(mean)
        distances = tff.federated_map(distance, (*broadcast, clients, data))
        return tff.federated_map(divide, tff.federated_sum(distances))

    return discrepancy


def _received(setting: Setting, sent: Structure, client: Structure) -> Tensor:
    """Return a client's parameters with the average of the segment that `sent` names."""
    average, _, segment = sent
    subsets = [subset for _, _, subset in setting.rules.segments]
    subset = tf.gather(subsets, segment)
    return receive(client["value"], subset, average, setting.rules.layout)["parameters"]


def build_losses(setting: Setting) -> Computation:
    """Return the losses of the local models and of the global one on clients' examples (figure 3).

    Of clients that are to be measured; others cost nothing.
    """

    @tracing.computation("client_losses", tracing.installed_for(setting.model))
    def client_losses(weights: Weights, client: Structure, dataset: Structure) -> Structure:
        model = setting.model.instantiate(initial=False)

        @tf.function(autograph=False)
        def run(weights: Weights, client: Structure, record: Record) -> Structure:
            own = setting.weights(client["value"], model.statistics)
            count = tf.cast(tf.shape(record["y"])[0], tf.float32)
            sums = tf.cond(
                client["measured"],
                lambda: tf.stack([_loss(model, own, record), _loss(model, weights, record), count]),
                lambda: tf.zeros([3]),
            )
            mean = tf.math.divide_no_nan(sums[0], count)
            return tf.where(count > 0, mean, np.float32(np.inf)), sums

        return run(weights, client, dataset.get_single_element())

    @tff.tensorflow.computation
    def report(smallest: Tensor, sums: Tensor) -> Structure:
        return OrderedDict(
            min_local_loss=smallest,
            mean_local_loss=tf.math.divide_no_nan(sums[0], sums[2]),
            global_loss=tf.math.divide_no_nan(sums[1], sums[2]),
        )

    @setting.over_clients(setting.model.weights_type)
    def losses(weights: Federated, clients: Federated, data: Federated) -> Federated:
        sent = tff.federated_broadcast(weights)
        means, sums = tff.federated_map(client_losses, (sent, clients, data))
        return tff.federated_map(report, (tff.federated_min(means), tff.federated_sum(sums)))

    return losses


def _loss(model: Model, weights: Weights, record: Record) -> Tensor:
    """Return the sum of the losses of all examples."""
    model.assign(weights)

    def add_batch(start: Tensor, total: Tensor) -> Tensor:
        x, y = (record[name][start : start + _LOSS_BATCH] for name in ("x", "y"))
        with model.batch_statistics(static_only=True):
            logits = model.forward(model.preprocess(x), training=False)
        return total + tf.reduce_sum(model.losses(y, logits))

    return loops.fold(add_batch, tf.zeros([]), 0, tf.shape(record["y"])[0], _LOSS_BATCH)
