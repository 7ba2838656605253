"""Evaluates TFF's language down to a `Plan`.

TFF's language has functions, structures, placements and intrinsics. They are evaluated once, when a
computation is first called. What remains and runs in every call are steps on leaves, each at the
server or at every client:

    server steps -> client steps, their results folded in client order -> server steps -> ...

A `Level` is one such pair. A computation with one aggregation has two levels; one with k
aggregations that depend on each other has k + 1.

An intrinsic that is not in `_INTRINSICS` is an error that names it. The native compiler has
replaced sums, means, minima, maxima and arithmetic by aggregations and TensorFlow already.
"""

import dataclasses
import functools
from collections.abc import Callable
from typing import Any, Optional, cast

from tensorflow_federated.python.core.impl.compiler import building_blocks as blocks
from typing_extensions import TypeAlias

from tff_partial.core.types import TffType
from tff_partial.runtime.in_process import graphs, sequences, steps
from tff_partial.runtime.in_process.steps import CLIENTS, SERVER, Fold, Leaf, Region, Step, Value

Environment: TypeAlias = dict[str, Value]
Block: TypeAlias = blocks.ComputationBuildingBlock
Intrinsic: TypeAlias = Callable[[TffType, Any, Region], Value]
"""(Type of the intrinsic, its argument, region of the call) -> result."""

Aggregation: TypeAlias = tuple[Value, Value, steps.Function, steps.Function, steps.Function]
"""The clients' values, zero, accumulate, merge, report."""


@dataclasses.dataclass(frozen=True)
class Level:
    """Server steps, then the steps of every client, then the folds of their results.

    `kept` are the clients' leaves that the result or later levels need.
    """

    server: steps.LocalFunction
    clients: steps.LocalFunction
    folds: list[Fold]
    kept: list[Leaf]


@dataclasses.dataclass(frozen=True)
class Plan:
    """A computation: the leaves of its parameter, the levels, and the leaves of its result."""

    parameter: list[Leaf]
    levels: list[Level]
    result: list[Leaf]

    def leaves(self) -> list[Leaf]:
        """Return all leaves, in an order that depends on the computation only."""
        stages = [
            (*level.server.steps, *level.clients.steps, *level.folds) for level in self.levels
        ]
        return [*self.parameter, *(leaf for stage in stages for s in stage for leaf in s.outputs)]


def make_plan(computation: Block) -> Plan:
    """Plan a compiled computation of functional type."""
    parameter_type = computation.type_signature.parameter
    parameter = None if parameter_type is None else steps.create_parameter(parameter_type, SERVER)
    function = cast(steps.Function, _evaluate(computation, {}, SERVER))
    result = steps.flatten(function(parameter, SERVER))
    needed = steps.needed_steps(result)
    last = max((step.level for step in needed), default=0)
    levels = [_level(number, needed, set(result)) for number in range(last + 1)]
    return Plan(steps.flatten(parameter), levels, result)


def _level(number: int, needed: list[Step], results: set[Leaf]) -> Level:
    folds = [s for s in needed if isinstance(s, Fold) and s.level == number + 1]
    server, clients = (_stage(number, needed, results, region) for region in (SERVER, CLIENTS))
    later = (step for step in needed if step.level > number and step not in folds)
    used = results.union(*(step.inputs for step in later))
    return Level(server, clients, folds, [leaf for leaf in clients.outputs if leaf in used])


def _stage(
    number: int, needed: list[Step], results: set[Leaf], region: Region
) -> steps.LocalFunction:
    at_level = (s for s in needed if s.level == number and not isinstance(s, Fold))
    own = [step for step in at_level if step.region is region]
    used = results.union(*(step.inputs for step in needed if step not in own))
    outputs = [leaf for step in own for leaf in step.outputs if leaf in used]
    return steps.local_function([], own, outputs)


def _evaluate(block: Block, environment: Environment, region: Region) -> Value:
    """Return the value of a building block, its calls made in `region`."""
    if isinstance(block, blocks.Reference):
        return environment[block.name]
    if isinstance(block, blocks.Selection):
        source = cast(tuple[Value, ...], _evaluate(block.source, environment, region))
        return source[block.as_index()]
    if isinstance(block, blocks.Struct):
        return tuple(_evaluate(element, environment, region) for element in block)
    if isinstance(block, blocks.Call):
        function = cast(steps.Function, _evaluate(block.function, environment, region))
        # An empty structure is an argument, and false.
        given = block.argument is not None
        argument = _evaluate(block.argument, environment, region) if given else None
        return function(argument, region)
    if isinstance(block, blocks.Block):
        inner = dict(environment)
        for name, value in block.locals:
            inner[name] = _evaluate(value, inner, region)
        return _evaluate(block.result, inner, region)
    if isinstance(block, blocks.Lambda):
        return functools.partial(_call_lambda, block, environment)
    return _evaluate_atom(block, region)


def _call_lambda(
    block: Block, environment: Environment, argument: Optional[Value], region: Region
) -> Value:
    if argument is not None:
        environment = {**environment, block.parameter_name: argument}
    return _evaluate(block.result, environment, region)


def _evaluate_atom(block: Block, region: Region) -> Value:
    if isinstance(block, blocks.CompiledComputation):
        return _graph_function(block)
    if isinstance(block, blocks.Literal):
        return sequences.constant(block.value, block.type_signature, region)
    if not isinstance(block, blocks.Intrinsic):
        raise NotImplementedError(f"in_process cannot run a {type(block).__name__} block: {block}")
    if block.uri not in _INTRINSICS:
        raise NotImplementedError(f"in_process does not know the intrinsic {block.uri}")
    return functools.partial(_INTRINSICS[block.uri], block.type_signature)


def _graph_function(block: blocks.CompiledComputation) -> steps.Function:
    kind = block.proto.WhichOneof("computation")
    if kind != "tensorflow":
        raise NotImplementedError(
            f"in_process runs TensorFlow only. Received: a computation in {kind}"
        )
    result_type = block.type_signature.result

    def call_graph(argument: Optional[Value], region: Region) -> Value:
        graph = graphs.prepare(block.proto.tensorflow)
        inputs = steps.flatten(argument)
        return Step(graph.emit, inputs, result_type, region, graph.exclusive, graph).result

    return call_graph


def _unchanged(_: TffType, argument: Value, unused_region: Region) -> Value:
    """Placing, broadcasting and zipping change where a value is, not what it is."""
    return argument


def _map_at(place: Region) -> Intrinsic:
    return lambda type_spec, argument, region: argument[0](argument[1], place)


def _eval_at(place: Region) -> Intrinsic:
    return lambda type_spec, function, region: function(None, place)


def _map_all_equal(_: TffType, argument: tuple[steps.Function, Value], unused: Region) -> Value:
    """Map once what is the same for all clients."""
    function, value = argument
    differs = any(leaf.region is CLIENTS for leaf in steps.flatten(value))
    return function(value, CLIENTS if differs else SERVER)


def _aggregate(type_spec: TffType, argument: Aggregation, unused_region: Region) -> Value:
    """Fold the clients in their order; there is nothing for TFF's `merge` to merge."""
    values, zero, accumulate, _, report = argument
    accumulate_type = type_spec.parameter[2]
    folding = steps.plan_function(accumulate, accumulate_type.parameter)
    fold = Fold(steps.flatten(values), steps.flatten(zero), folding, accumulate_type.result)
    return report(fold.result, SERVER)


_INTRINSICS: dict[str, Intrinsic] = {
    "federated_aggregate": _aggregate,
    "federated_apply": _map_at(SERVER),
    "federated_broadcast": _unchanged,
    "federated_eval_at_clients": _eval_at(CLIENTS),
    "federated_eval_at_server": _eval_at(SERVER),
    "federated_map": _map_at(CLIENTS),
    "federated_map_all_equal": _map_all_equal,
    "federated_select": sequences.select,
    "federated_value_at_clients": _unchanged,
    "federated_value_at_server": _unchanged,
    "federated_zip_at_clients": _unchanged,
    "federated_zip_at_server": _unchanged,
    "sequence_map": sequences.sequence_map,
    "sequence_reduce": sequences.sequence_reduce,
    "sequence_sum": sequences.sequence_sum,
}
