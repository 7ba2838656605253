"""What clients with state send: their update, and what is summed beside it.

The mean takes both as they are. A robust or secure aggregator gets all that a client sends as one
update; what is to be summed then has the weight 1, and its mean is multiplied by the number of
clients.
"""

from __future__ import annotations

from collections import OrderedDict
from typing import NamedTuple, Protocol

import numpy as np

from tff_partial.core.aggregators import Aggregator
from tff_partial.core.lazy import tf, tff
from tff_partial.core.model import ModelSpec
from tff_partial.core.types import Computation, Federated, Structure, Tensor, TffType

REFUSED = {
    "dp": "clients keep something between rounds, and the accounting is of clients that do not"
}
"""Aggregations of clients with state that are refused, and why."""


class Aggregated(NamedTuple):
    """The aggregator's new state, the mean update, the sums and the measurements."""

    state: Federated
    mean: Federated
    sums: Federated
    measurements: Federated


class HasInitialize(Protocol):
    """An aggregation process, or what stands for one."""

    @property
    def initialize(self) -> Computation: ...


class Upload(HasInitialize, Protocol):
    """Aggregates what comes of clients' rounds."""

    def next(self, state: Federated, done: Federated) -> Aggregated: ...


class MeanAndSums:
    """The aggregator's mean of `done.update`, weighted by `done.weight`; a sum of `done.summed`."""

    def __init__(self, model: ModelSpec, aggregator: Aggregator) -> None:
        scalar = tff.TensorType(np.float32)
        self._mean = aggregator.mean().create(model.weights_type, scalar)

    @property
    def initialize(self) -> Computation:
        return self._mean.initialize

    def next(self, state: Federated, done: Federated) -> Aggregated:
        average = self._mean.next(state, done.update, done.weight)
        sums = tff.federated_sum(done.summed)
        return Aggregated(average.state, average.result, sums, average.measurements)


class Joint:
    """The same, with one vector of all that a client sends for the aggregator."""

    def __init__(self, aggregator: Aggregator, done_type: TffType) -> None:
        self._sum = aggregator.sum
        self._join = tff.tensorflow.computation(_join, done_type)
        self._mean = aggregator.mean().create(*self._join.type_signature.result)

    @property
    def initialize(self) -> Computation:
        return self._mean.initialize

    def next(self, state: Federated, done: Federated) -> Aggregated:
        value, weight = tff.federated_map(self._join, done)
        average = self._mean.next(state, value, weight)
        count = self._sum(done.summed.clients)
        split = tff.tensorflow.computation(_split)
        mean, sums = tff.federated_map(split, (average.result, count))
        return Aggregated(average.state, mean, sums, average.measurements)


def _join(done: Structure) -> tuple[Structure, Structure]:
    """Return all that a client sends, and a weight for each of its tensors."""
    summed = OrderedDict((name, v) for name, v in done["summed"].items() if name != "clients")
    weights = OrderedDict(
        update=tf.nest.map_structure(lambda _: done["weight"], done["update"]),
        summed=tf.nest.map_structure(lambda _: done["summed"]["clients"], summed),
    )
    return OrderedDict(update=done["update"], summed=summed), weights


def _split(mean: Structure, count: Tensor) -> tuple[Structure, Structure]:
    """Return the mean update and the sums."""
    sums = tf.nest.map_structure(lambda v: count * v, mean["summed"])
    return mean["update"], OrderedDict(clients=count, **sums)
