"""A round of `averaging`, written once: `run` calls its computations through an executor.

`as_computation` is the round as one TFF computation, values staying in the runtime. `in_steps`
calls one computation after the other from Python, for TFF's context of several remote workers,
which admits one aggregation a computation.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Sequence
from typing import Union

import numpy as np

from tff_partial.core import aggregation
from tff_partial.core.lazy import tf, tff
from tff_partial.core.types import Computation, Federated, Metrics, ServerState, Structure, Tensor
from tff_partial.processes import averaging_measures, stateful
from tff_partial.processes.averaging_computations import Setting, build_advance, build_finish
from tff_partial.processes.client_work import mean_metrics


class Computations:
    """The computations of a round."""

    def __init__(self, setting: Setting) -> None:
        self.setting, compute = setting, tff.tensorflow.computation
        mean = aggregation.ContributorMean().create(
            setting.sent_type[0], tff.TensorType(np.float32)
        )
        self.initialize = stateful.build_initialize(setting.model, mean, compute(lambda: ()))
        self.advance, self.finish = build_advance(setting, mean), build_finish(setting)
        self.discrepancy = averaging_measures.build_discrepancy(setting)
        self.losses = averaging_measures.build_losses(setting)
        self.no_average = compute(lambda: tf.zeros([setting.rules.layout.width]))
        self.next_round = compute(lambda round_num: round_num + 1, np.int32)
        sums_type = self.advance.type_signature.result[2].member
        self.metrics = compute(
            _metrics,
            (sums_type,) * len(setting.rules.segments),
            np.float32,
            np.float32,
        )


def _metrics(sums: Sequence[Metrics], before: Tensor, after: Tensor) -> Metrics:
    """Return a round's metrics from the sums of its segments and the discrepancies."""
    totals = {name: sum(part[name] for part in sums) for name in ("loss", "correct", "examples")}
    return OrderedDict(mean_metrics(totals), discrepancy_before=before, discrepancy=after)


class _InOneComputation:
    """Calls computations inside a federated one."""

    def place(self, number: int) -> Federated:
        """Return a number at the server."""
        return tff.federated_value(np.int32(number), tff.SERVER)

    def zip(self, values: Structure) -> Federated:
        """Return values at the server as one."""
        return tff.federated_zip(values)

    def call(self, computation: Computation, *values: Federated) -> Federated:
        """Apply a computation at the server."""
        if not values:
            return tff.federated_eval(computation, tff.SERVER)
        return tff.federated_map(computation, values if len(values) > 1 else values[0])

    def in_order(self, clients: Federated) -> Federated:
        """Return clients' states in the order of their data."""
        return clients


class _OneByOne:
    """The same from Python; several workers return clients in another order."""

    def __init__(self, clients: list[Structure]) -> None:
        self._places = {int(client["client_id"]): i for i, client in enumerate(clients)}

    def place(self, number: int) -> Structure:
        return np.int32(number)

    def zip(self, values: Structure) -> Structure:
        return values

    def call(self, computation: Computation, *values: Structure) -> Structure:
        return computation(*values)

    def in_order(self, clients: list[Structure]) -> list[Structure]:
        return sorted(clients, key=lambda client: self._places[int(client["client_id"])])


def run(
    steps: Computations,
    executor: Union[_InOneComputation, _OneByOne],
    state: ServerState,
    clients: Structure,
    data: Structure,
) -> stateful.Output:
    """Run a round."""
    weights, round_num, aggregator = state.global_model_weights, state.client_work, state.aggregator
    average, count, sums = executor.call(steps.no_average), len(steps.setting.rules.segments), []
    for segment in range(count):
        sent = executor.zip((average, round_num, executor.place(segment)))
        average, aggregator, part, clients = steps.advance(sent, aggregator, clients, data)
        clients = executor.in_order(clients)
        sums.append(part)
    sent, before = executor.zip((average, round_num, executor.place(count))), clients
    weights, clients = steps.finish(sent, weights, before, data)
    clients = executor.in_order(clients)
    # An average leaves the mean of the models as it is.
    distances = [steps.discrepancy(weights, models, data) for models in (before, clients)]
    metrics = OrderedDict(
        client_work=executor.call(steps.metrics, executor.zip(tuple(sums)), *distances),
        losses=steps.losses(weights, before, data),
    )
    new_state = tff.learning.templates.LearningAlgorithmState(
        weights,
        state.distributor,
        executor.call(steps.next_round, round_num),
        aggregator,
        state.finalizer,
    )
    return stateful.Output(executor.zip(new_state), clients, executor.zip(metrics))


def as_computation(steps: Computations) -> Computation:
    """Return the round as one TFF computation."""

    @steps.setting.over_clients(steps.initialize.type_signature.result.member)
    def next_fn(state: Federated, clients: Federated, data: Federated) -> Federated:
        return run(steps, _InOneComputation(), state, clients, data)

    return next_fn


def in_steps(
    steps: Computations, state: ServerState, clients: list[Structure], data: list[Structure]
) -> stateful.Output:
    """Run the round as one computation after the other."""
    return run(steps, _OneByOne(clients), state, clients, data)
