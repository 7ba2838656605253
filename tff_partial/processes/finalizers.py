"""What the server does at the end of a round: its optimiser makes a step with the mean update."""

from __future__ import annotations

import collections
import dataclasses
from typing import Any, Callable

from tff_partial.core.aggregation import MEAN, TRAINED
from tff_partial.core.lazy import tf, tff
from tff_partial.core.model import ModelSpec
from tff_partial.core.server_optimizers import ServerOptimizer, where_trained
from tff_partial.core.types import (
    Federated,
    FinalizerProcess,
    Structure,
    Tensor,
    TffType,
    Weights,
)
from tff_partial.core.vectors import Vector
from tff_partial.processes.stateful_rules import Rules, Server, State

LEAST_VARIANCE = 1e-3


def build(model: ModelSpec, optimizer: ServerOptimizer, result_type: TffType) -> FinalizerProcess:
    """Return the process that makes the server's step, statistics included.

    Args:
      model: The model.
      optimizer: The server's optimiser, whose state the process keeps.
      result_type: Type of what the aggregator returns: the mean update, or that and what was
        trained (`aggregation.ContributorMean.says_who`). Without the latter, parameters whose mean
        is exactly 0 count as not trained.
    """
    if optimizer.name == "sgd":
        return _build_sum(model, optimizer.rate)
    create = tff.tensorflow.computation(
        lambda: optimizer.initialize(model.instantiate(initial=False).trainable)
    )
    initialize = tff.federated_computation(lambda: tff.federated_eval(create, tff.SERVER))
    state_type = create.type_signature.result

    @tff.tensorflow.computation(state_type, model.weights_type, result_type)
    def apply_update(state: Structure, weights: Weights, result: Structure) -> Structure:
        update, trained = _mean_and_trained(result)
        old = list(weights.trainable)
        new_state, steps = optimizer.step(state, list(update.trainable))
        new = where_trained(trained, [w + step for w, step in zip(old, steps)], old)
        statistics = [
            _added(w, d, 1.0) for w, d in zip(weights.non_trainable, update.non_trainable)
        ]
        new_weights = tff.learning.models.ModelWeights(new, statistics)
        return where_trained(trained, new_state, state), new_weights

    @tff.federated_computation(
        tff.FederatedType(state_type, tff.SERVER),
        tff.FederatedType(model.weights_type, tff.SERVER),
        tff.FederatedType(result_type, tff.SERVER),
    )
    def next_fn(state: Federated, weights: Federated, result: Federated) -> Federated:
        done = tff.federated_map(apply_update, (state, weights, result))
        nothing = tff.federated_value((), tff.SERVER)
        return tff.templates.MeasuredProcessOutput(done[0], done[1], nothing)

    return tff.learning.templates.FinalizerProcess(initialize, next_fn)


def with_positive_variances(model: ModelSpec, process: FinalizerProcess) -> FinalizerProcess:
    """Return the process with moving variances of at least `LEAST_VARIANCE`: noise may be less."""
    names = model.variable_names[len(model.weights_type.trainable) :]
    is_variance = ["variance" in name for name in names]
    if not any(is_variance):
        return process

    @tff.tensorflow.computation(model.weights_type)
    def clip(weights: Weights) -> Weights:
        statistics = [
            tf.maximum(v, LEAST_VARIANCE) if is_one else v
            for v, is_one in zip(weights.non_trainable, is_variance)
        ]
        return tff.learning.models.ModelWeights(weights.trainable, statistics)

    @tff.federated_computation(*process.next.type_signature.parameter)
    def next_fn(state: Federated, weights: Federated, update: Federated) -> Federated:
        done = process.next(state, weights, update)
        result = tff.federated_map(clip, done.result)
        return tff.templates.MeasuredProcessOutput(done.state, result, done.measurements)

    return tff.learning.templates.FinalizerProcess(process.initialize, next_fn)


def _build_sum(model: ModelSpec, rate: float) -> FinalizerProcess:
    """Return weights + rate * update, statistics included, as a process."""
    initialize = tff.federated_computation(lambda: tff.federated_value((), tff.SERVER))
    at_server = tff.FederatedType(model.weights_type, tff.SERVER)

    @tff.tensorflow.computation
    def apply_update(weights: Weights, update: Weights) -> Weights:
        return tf.nest.map_structure(lambda w, d: _added(w, d, rate), weights, update)

    @tff.federated_computation(initialize.type_signature.result, at_server, at_server)
    def next_fn(state: Federated, weights: Federated, update: Federated) -> Federated:
        new_weights = tff.federated_map(apply_update, (weights, update))
        return tff.templates.MeasuredProcessOutput(state, new_weights, initialize())

    return tff.learning.templates.FinalizerProcess(initialize, next_fn)


def _added(weight: Tensor, update: Tensor, rate: float) -> Tensor:
    return weight + rate * update if weight.dtype.is_floating else weight


def _mean_and_trained(result: Structure) -> tuple[Weights, list[Tensor]]:
    """Return the mean update and, for each parameter, whether or where it was trained."""
    if isinstance(result, dict):
        return result[MEAN], list(result[TRAINED].trainable)
    return result, [tf.not_equal(d, 0.0) for d in result.trainable]


def with_optimizer(rules: Rules, optimizer: ServerOptimizer) -> Rules:
    """Return an algorithm's rules with the optimiser's step in place of the mean update."""
    if optimizer.is_sum:
        return rules

    def server_state(x: Vector) -> State:
        state = optimizer.initialize(x.tensors)
        own = collections.OrderedDict((name, Vector(values)) for name, values in state.items())
        return collections.OrderedDict(optimizer=own, rules=rules.server_state(x))

    def update_server(server: Server) -> tuple[Vector, State]:
        own = {name: value.tensors for name, value in server.state["optimizer"].items()}
        new, steps = optimizer.step(own, server.update.tensors)
        kept = collections.OrderedDict((name, Vector(values)) for name, values in new.items())
        model, state = rules.server(
            server._replace(state=server.state["rules"], update=Vector(steps))
        )
        return model, collections.OrderedDict(optimizer=kept, rules=state)

    def of_rules(function: Callable[[State], Any]) -> Callable[[State], Any]:
        return lambda state: function(state["rules"])

    return dataclasses.replace(
        rules,
        server_state=server_state,
        server=update_server,
        sent=of_rules(rules.sent),
        other_models={label: of_rules(model) for label, model in rules.other_models.items()},
    )
