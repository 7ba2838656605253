"""Evaluates TFF's language down to a `Plan`: functions, structures and placements dissolve.

An intrinsic that is not in `_INTRINSICS` is an error that names it. The native compiler has
replaced sums, means, minima, maxima and arithmetic by aggregations and TensorFlow before we see a
computation.
"""

import functools
from typing import Any, Optional

import numpy as np
import tensorflow_federated as tff
from tensorflow_federated.python.core.impl.compiler import building_blocks as blocks

from tff_partial.runtime.in_process import graphs, sequences
from tff_partial.runtime.in_process.plan import (
    CLIENTS,
    SERVER,
    Fold,
    Function,
    Leaf,
    LocalFunction,
    Plan,
    Region,
    Step,
    Value,
    flatten,
    function_of,
    leaves_of_type,
    pack,
    plan_levels,
)

Environment = dict[str, Value]


def make_plan(computation: blocks.ComputationBuildingBlock) -> Plan:
    """Plans a compiled computation of functional type."""
    parameter_type = computation.type_signature.parameter
    parameter = None if parameter_type is None else _parameter(parameter_type, SERVER)
    result = _apply(_evaluate(computation, {}, SERVER), parameter, SERVER)
    flatten(result)  # refuses functions in the result
    return Plan(parameter, plan_levels(result), result)


def _parameter(type_spec: Any, region: Region) -> Value:
    if isinstance(type_spec, tff.StructType):
        return tuple(_parameter(element, region) for element in type_spec)
    if isinstance(type_spec, tff.FederatedType):
        shared = type_spec.all_equal or type_spec.placement is tff.SERVER
        return _parameter(type_spec.member, SERVER if shared else CLIENTS)
    if isinstance(type_spec, tff.FunctionType):
        raise NotImplementedError(f"in_process takes no function as argument: {type_spec}")
    return Leaf(type_spec, region)


def _apply(function: Value, argument: Optional[Value], region: Region) -> Value:
    if not callable(function):
        raise TypeError(f"expected a function. Received: {function}")
    return function(argument, region)


def _evaluate(block: Any, environment: Environment, region: Region) -> Value:
    """The value of a building block, its calls made in `region`."""
    if isinstance(block, blocks.Reference):
        return environment[block.name]
    if isinstance(block, blocks.Selection):
        source: Any = _evaluate(block.source, environment, region)
        return source[block.as_index()]
    if isinstance(block, blocks.Struct):
        return tuple(_evaluate(element, environment, region) for element in block)
    if isinstance(block, blocks.Call):
        function = _evaluate(block.function, environment, region)
        # An empty structure is an argument, and false.
        given = block.argument is not None
        argument = _evaluate(block.argument, environment, region) if given else None
        return _apply(function, argument, region)
    if isinstance(block, blocks.Block):
        inner = dict(environment)
        for name, value in block.locals:
            inner[name] = _evaluate(value, inner, region)
        return _evaluate(block.result, inner, region)
    return _evaluate_atom(block, environment, region)


def _evaluate_atom(block: Any, environment: Environment, region: Region) -> Value:
    if isinstance(block, blocks.Lambda):
        return functools.partial(_call_lambda, block, environment)
    if isinstance(block, blocks.CompiledComputation):
        return _compiled(block)
    if isinstance(block, blocks.Literal):
        return _constant(block.value, block.type_signature, region)
    if isinstance(block, blocks.Intrinsic):
        return _intrinsic(block, region)
    raise NotImplementedError(f"in_process cannot run a {type(block).__name__} block: {block}")


def _call_lambda(block: Any, environment: Environment, argument: Any, region: Region) -> Value:
    if block.parameter_name is not None:
        environment = {**environment, block.parameter_name: argument}
    return _evaluate(block.result, environment, region)


def _compiled(block: Any) -> Function:
    kind = block.proto.WhichOneof("computation")
    if kind != "tensorflow":
        raise NotImplementedError(
            f"in_process runs TensorFlow only. Received: a computation in {kind}"
        )
    result_type = block.type_signature.result

    def call(argument: Optional[Value], region: Region) -> Value:
        graph = graphs.prepare(block.proto.tensorflow)
        inputs = [] if argument is None else flatten(argument)
        types = leaves_of_type(result_type)
        step = Step(graph.emit, inputs, types, region, graph, graph.exclusive)
        return pack(result_type, step.outputs)

    return call


def _constant(value: Any, type_spec: Any, region: Region) -> Leaf:
    return Step(
        functools.partial(sequences.emit_constant, value, type_spec), (), [type_spec], region
    ).outputs[0]


def _intrinsic(block: Any, region: Region) -> Value:
    if block.uri == "generic_zero":
        zeros = [_zero(leaf, region) for leaf in leaves_of_type(block.type_signature)]
        return pack(block.type_signature, zeros)
    if block.uri not in _INTRINSICS:
        raise NotImplementedError(f"in_process does not know the intrinsic {block.uri}")
    return functools.partial(_INTRINSICS[block.uri], block.type_signature)


def _zero(type_spec: Any, region: Region) -> Leaf:
    if not isinstance(type_spec, tff.TensorType) or not tff.types.is_shape_fully_defined(
        type_spec.shape
    ):
        raise NotImplementedError(
            f"generic_zero needs a tensor of known shape. Received: {type_spec}"
        )
    return _constant(np.zeros(type_spec.shape, type_spec.dtype), type_spec, region)


def local_function(function: Value, parameter_type: Any) -> LocalFunction:
    """A TFF function of local values, planned on its own."""
    inside = Region("function")
    parameter = _parameter(parameter_type, inside)
    outputs = flatten(_apply(function, parameter, inside))
    return function_of(flatten(parameter), outputs, inside)


def _same(unused_type: Any, argument: Any, unused_region: Region) -> Value:
    """Placing, broadcasting and zipping change where a value is, not what it is."""
    return argument


def _apply_at_server(unused_type: Any, argument: Any, unused_region: Region) -> Value:
    return _apply(argument[0], argument[1], SERVER)


def _map_at_clients(unused_type: Any, argument: Any, unused_region: Region) -> Value:
    return _apply(argument[0], argument[1], CLIENTS)


def _map_all_equal(unused_type: Any, argument: Any, unused_region: Region) -> Value:
    """The same for all clients, so computed once."""
    differs = any(leaf.region is CLIENTS for leaf in flatten(argument[1]))
    return _apply(argument[0], argument[1], CLIENTS if differs else SERVER)


def _eval_at_server(unused_type: Any, argument: Any, unused_region: Region) -> Value:
    return _apply(argument, None, SERVER)


def _eval_at_clients(unused_type: Any, argument: Any, unused_region: Region) -> Value:
    return _apply(argument, None, CLIENTS)


def _aggregate(type_spec: Any, argument: Any, unused_region: Region) -> Value:
    """Clients are folded in their order, so there is nothing for `merge` to merge."""
    values, zero, accumulate, _, report = argument
    accumulate_type = type_spec.parameter[2]
    folding = local_function(accumulate, accumulate_type.parameter)
    types = leaves_of_type(accumulate_type.result)
    fold = Fold(flatten(values), flatten(zero), folding, types)
    return _apply(report, pack(accumulate_type.result, fold.outputs), SERVER)


def _select(type_spec: Any, argument: Any, unused_region: Region) -> Value:
    keys, _, state, select = argument
    select_type = type_spec.parameter[3]
    selecting = local_function(select, select_type.parameter)
    emit = functools.partial(sequences.emit_select, selecting, select_type)
    inputs = [*flatten(keys), *flatten(state), *selecting.captures]
    types = leaves_of_type(type_spec.result)
    return Step(emit, inputs, types, CLIENTS, exclusive=selecting.exclusive).outputs[0]


def _sequence_map(type_spec: Any, argument: Any, region: Region) -> Value:
    function, sequence = argument
    function_type = type_spec.parameter[0]
    mapping = local_function(function, function_type.parameter)
    emit = functools.partial(sequences.emit_map, mapping, function_type)
    inputs = [sequence, *mapping.captures]
    return Step(emit, inputs, [type_spec.result], region, exclusive=mapping.exclusive).outputs[0]


def _sequence_reduce(type_spec: Any, argument: Any, region: Region) -> Value:
    sequence, zero, function = argument
    function_type = type_spec.parameter[2]
    reducing = local_function(function, function_type.parameter)
    emit = functools.partial(sequences.emit_reduce, reducing, sequence.type.element)
    inputs = [sequence, *flatten(zero), *reducing.captures]
    types = leaves_of_type(function_type.result)
    return pack(
        function_type.result,
        Step(emit, inputs, types, region, exclusive=reducing.exclusive).outputs,
    )


def _sequence_sum(type_spec: Any, argument: Any, region: Region) -> Value:
    zero = [_zero(leaf, region) for leaf in leaves_of_type(type_spec.result)]
    emit = functools.partial(sequences.emit_sum, argument.type.element)
    step = Step(emit, [argument, *zero], leaves_of_type(type_spec.result), region)
    return pack(type_spec.result, step.outputs)


_INTRINSICS = {
    "federated_aggregate": _aggregate,
    "federated_apply": _apply_at_server,
    "federated_broadcast": _same,
    "federated_eval_at_clients": _eval_at_clients,
    "federated_eval_at_server": _eval_at_server,
    "federated_map": _map_at_clients,
    "federated_map_all_equal": _map_all_equal,
    "federated_select": _select,
    "federated_value_at_clients": _same,
    "federated_value_at_server": _same,
    "federated_zip_at_clients": _same,
    "federated_zip_at_server": _same,
    "sequence_map": _sequence_map,
    "sequence_reduce": _sequence_reduce,
    "sequence_sum": _sequence_sum,
}
