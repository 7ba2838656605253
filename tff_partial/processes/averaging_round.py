"""A round of `averaging`, written once: `run` calls its computations through an executor.

`as_computation` is the round as one TFF computation, values staying in the runtime. `in_steps`
calls one computation after the other from Python, for TFF's context of several remote workers,
which admits one aggregation a computation.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Sequence
from typing import Callable, NamedTuple

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
        self.setting, rules, compute = setting, setting.rules, tff.tensorflow.computation
        scalar = tff.TensorType(np.float32)
        mean = aggregation.ContributorMean().create(setting.sent_type[0], scalar)
        intervals = rules.intervals
        initial = compute(intervals.initial if intervals else lambda: ())
        self.initialize = stateful.build_initialize(setting.model, mean, initial)
        self.advance, self.finish = build_advance(setting, mean), build_finish(setting)
        self.discrepancy = averaging_measures.build_discrepancy(setting)
        if setting.measure_losses:
            self.losses = averaging_measures.build_losses(setting)
        if setting.measure_steps:
            self.mean = averaging_measures.build_mean(setting)
            self.step_discrepancy = averaging_measures.build_step_discrepancy(setting)
        self.no_average = compute(lambda: tf.zeros([rules.layout.width]))
        self.next_round = compute(lambda round_num: round_num + 1, np.int32)
        count = 1 if intervals else len(rules.segments)
        sums_types = (self.advance.type_signature.result[2].member,) * count
        self.metrics = compute(_metrics, sums_types, np.float32, np.float32)
        if intervals:
            kept = initial.type_signature.result, np.int32
            self.segment = compute(intervals.segment, *kept)
            self.next_interval = compute(intervals.next, *kept, self.metrics.type_signature.result)
            lengths = [stop - first for first, stop, _ in rules.segments]
            self.steps = compute(lambda segment: tf.gather(lengths, segment), np.int32)


def _metrics(sums: Sequence[Metrics], before: Tensor, after: Tensor) -> Metrics:
    """Return a round's metrics from the sums of its segments and the discrepancies."""
    totals = {name: sum(part[name] for part in sums) for name in ("loss", "correct", "examples")}
    return OrderedDict(mean_metrics(totals), discrepancy_before=before, discrepancy=after)


class Executor(NamedTuple):
    """How a round is executed.

    Attributes:
      place: A number -> the same at the server.
      zip: A structure of values at the server -> one value.
      call: (Computation, *values) -> the computation at the server.
      in_order: Clients' states -> the same in the order of the clients' data.
    """

    place: Callable[[int], Federated]
    zip: Callable[[Structure], Federated]
    call: Callable[..., Federated]
    in_order: Callable[[Federated], Federated]


def run(
    steps: Computations, executor: Executor, state: ServerState, clients: Structure, data: Structure
) -> stateful.Output:
    """Run a round."""
    weights, round_num, aggregator = state.global_model_weights, state.client_work, state.aggregator
    intervals, count = steps.setting.rules.intervals, len(steps.setting.rules.segments)
    if intervals:
        places = [executor.call(steps.segment, state.finalizer, round_num)]
    else:
        places = [executor.place(segment) for segment in range(count)]
    average, sums = executor.call(steps.no_average), []
    discrepancies: dict[str, Federated] = OrderedDict()
    for segment, place in enumerate(places):
        sent = executor.zip((average, round_num, place))
        average, aggregator, part, clients = steps.advance(sent, aggregator, clients, data)
        clients = executor.in_order(clients)
        sums.append(part)
        if steps.setting.measure_steps:
            sent = executor.zip((average, round_num, place))
            mean = steps.mean(sent, clients, data)
            name = f"discrepancy_{segment + 1}"
            discrepancies[name] = steps.step_discrepancy(sent, mean, clients, data)
    sent, before = executor.zip((average, round_num, executor.place(count))), clients
    weights, clients = steps.finish(sent, weights, before, data)
    clients = executor.in_order(clients)
    # An average leaves the mean of the models as it is.
    distances = [steps.discrepancy(weights, models, data) for models in (before, clients)]
    metrics = OrderedDict(
        client_work=executor.call(steps.metrics, executor.zip(tuple(sums)), *distances)
    )
    if steps.setting.measure_losses:
        metrics["losses"] = steps.losses(weights, before, data)
    if discrepancies:
        metrics["discrepancies"] = executor.zip(discrepancies)
    finalizer = state.finalizer
    if intervals:
        finalizer = executor.call(steps.next_interval, finalizer, round_num, metrics["client_work"])
        interval = executor.call(steps.steps, places[0])
        metrics["finalizer"] = executor.zip(OrderedDict(interval=interval))
    new_state = tff.learning.templates.LearningAlgorithmState(
        weights,
        state.distributor,
        executor.call(steps.next_round, round_num),
        aggregator,
        finalizer,
    )
    return stateful.Output(executor.zip(new_state), clients, executor.zip(metrics))


def as_computation(steps: Computations) -> Computation:
    """Return the round as one TFF computation."""

    def call(computation: Computation, *values: Federated) -> Federated:
        if not values:
            return tff.federated_eval(computation, tff.SERVER)
        return tff.federated_map(computation, values if len(values) > 1 else values[0])

    executor = Executor(
        place=lambda number: tff.federated_value(np.int32(number), tff.SERVER),
        zip=tff.federated_zip,
        call=call,
        in_order=lambda clients: clients,
    )

    @steps.setting.over_clients(steps.initialize.type_signature.result.member)
    def next_fn(state: Federated, clients: Federated, data: Federated) -> Federated:
        return run(steps, executor, state, clients, data)

    return next_fn


def in_steps(
    steps: Computations, state: ServerState, clients: list[Structure], data: list[Structure]
) -> stateful.Output:
    """Run the round as one computation after the other."""
    order = {int(client["client_id"]): i for i, client in enumerate(clients)}
    executor = Executor(
        place=np.int32,
        zip=lambda values: values,
        call=lambda computation, *values: computation(*values),
        # Several workers return clients in another order.
        in_order=lambda states: sorted(states, key=lambda state: order[int(state["client_id"])]),
    )
    return run(steps, executor, state, clients, data)
