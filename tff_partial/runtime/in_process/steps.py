"""Steps on leaves: what remains of a TFF computation when it has been evaluated.

A *leaf* is a tensor or a sequence, a *step* a piece of TensorFlow that computes leaves from leaves,
at the server, at every client or inside of a local function. `planner` makes them.
"""

import dataclasses
import itertools
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Optional, Union

import tensorflow_federated as tff
from typing_extensions import TypeAlias

from tff_partial.core.types import Array, Tensor, TffType
from tff_partial.runtime.in_process.graphs import PreparedGraph

LeafType: TypeAlias = Union[tff.TensorType, tff.SequenceType]


class Region:
    """Where a step runs: SERVER, CLIENTS, or inside of a function (a fold, a sequence's map)."""

    def __init__(self, name: str):
        self.name = name


SERVER = Region("server")
CLIENTS = Region("clients")


@dataclasses.dataclass(eq=False, repr=False)
class Leaf:
    """One tensor or sequence: a parameter, or a result of a step."""

    type: LeafType
    region: Region  # SERVER for a value at CLIENTS that is the same for all
    step: Optional["Step"] = None  # that yields it; None for a parameter

    @property
    def level(self) -> int:
        """The number of folds that have to be finished before it is known."""
        return self.step.level if self.step else 0


Value: TypeAlias = Union[Leaf, tuple["Value", ...], "Function"]
"""A value while planning: structures are tuples."""

Function: TypeAlias = Callable[[Optional[Value], Region], Value]
"""A TFF function while planning: (argument, region of the call) -> result."""

Emit: TypeAlias = Callable[[Sequence[Tensor]], Sequence[Tensor]]
"""Adds a step to the function that is being traced: tensors of its inputs -> of its results."""

LeafValue: TypeAlias = Union[Tensor, Array]
"""A leaf's value in a call: for a sequence a variant tensor, at CLIENTS a list of all clients'."""

_step_numbers = itertools.count()


@dataclasses.dataclass(eq=False, repr=False)
class Step:
    """A piece of TensorFlow; `outputs` are the leaves of its result."""

    emit: Optional[Emit]  # None for a fold
    inputs: Sequence[Leaf]
    result_type: TffType
    region: Region
    exclusive: bool = False  # whether two calls at a time could disturb each other
    graph: Optional[PreparedGraph] = None  # given if the step is a graph and nothing else

    def __post_init__(self) -> None:
        self.number = next(_step_numbers)
        is_fold = isinstance(self, Fold)
        self.level = max((leaf.level for leaf in self.inputs), default=0) + is_fold
        self.outputs = [Leaf(t, self.region, self) for t in leaf_types(self.result_type)]

    @property
    def result(self) -> Value:
        """The outputs in the structure of the result's type."""
        return _pack(self.result_type, iter(self.outputs))


class Fold(Step):
    """An aggregation: `accumulate` adds a client's `values` to what starts as `zero`."""

    def __init__(
        self,
        values: list[Leaf],
        zero: list[Leaf],
        accumulate: "LocalFunction",
        result_type: TffType,
    ):
        self.values = values
        self.zero = zero
        self.accumulate = accumulate
        super().__init__(None, [*values, *zero, *accumulate.captures], result_type, SERVER)


@dataclasses.dataclass(frozen=True)
class LocalFunction:
    """Steps that run together, in an order in which they can run."""

    parameters: list[Leaf]  # get a value in every call
    captures: list[Leaf]  # from elsewhere, used by the steps
    steps: list[Step]
    outputs: list[Leaf]

    @property
    def exclusive(self) -> bool:
        return any(step.exclusive for step in self.steps)

    def emit(self, parameters: Iterable[Tensor], captures: Iterable[Tensor]) -> list[Tensor]:
        """Add the steps to the function that is being traced; return the outputs' tensors."""
        known = dict(zip(self.parameters, parameters))
        known.update(zip(self.captures, captures))
        for step in self.steps:
            if step.emit is None:
                raise NotImplementedError("in_process cannot aggregate inside of a local function")
            known.update(zip(step.outputs, step.emit([known[leaf] for leaf in step.inputs])))
        return [known[leaf] for leaf in self.outputs]

    def forget_graphs(self) -> None:
        """Free what only tracing needs."""
        for step in self.steps:
            step.emit = step.graph = None


def leaf_types(type_spec: TffType) -> list[LeafType]:
    """Return the tensor and sequence types in a type, in order, whatever their placement."""
    if isinstance(type_spec, (tff.TensorType, tff.SequenceType)):
        return [type_spec]
    if isinstance(type_spec, tff.FederatedType):
        return leaf_types(type_spec.member)
    if isinstance(type_spec, tff.StructType):
        return [leaf for element in type_spec for leaf in leaf_types(element)]
    raise NotImplementedError(f"in_process has no values of type {type_spec}")


def flatten(value: Optional[Value]) -> list[Leaf]:
    """Return the leaves of a value, in order; none for no value."""
    if isinstance(value, Leaf):
        return [value]
    if value is None or isinstance(value, tuple):
        return [leaf for element in value or () for leaf in flatten(element)]
    raise NotImplementedError("in_process cannot pass a function where a value is expected")


def _pack(type_spec: TffType, leaves: Iterator[Leaf]) -> Value:
    """Return the next leaves in the structure of a type: the inverse of `flatten`."""
    if isinstance(type_spec, tff.FederatedType):
        return _pack(type_spec.member, leaves)
    if isinstance(type_spec, tff.StructType):
        return tuple(_pack(element, leaves) for element in type_spec)
    return next(leaves)


def create_parameter(type_spec: TffType, region: Region) -> Value:
    """Return a new parameter of a type: a leaf, or a tuple of them."""
    if isinstance(type_spec, tff.StructType):
        return tuple(create_parameter(element, region) for element in type_spec)
    if isinstance(type_spec, tff.FederatedType):
        shared = type_spec.all_equal or type_spec.placement is tff.SERVER
        return create_parameter(type_spec.member, SERVER if shared else CLIENTS)
    if isinstance(type_spec, tff.FunctionType):
        raise NotImplementedError(f"in_process takes no function as argument: {type_spec}")
    return Leaf(type_spec, region)


def plan_function(function: Function, parameter_type: TffType) -> LocalFunction:
    """Plan a TFF function of local values on its own."""
    inside = Region("function")
    parameter = create_parameter(parameter_type, inside)
    outputs = flatten(function(parameter, inside))
    steps = [step for step in needed_steps(outputs) if step.region is inside]
    return local_function(flatten(parameter), steps, outputs)


def local_function(parameters: list[Leaf], steps: list[Step], outputs: list[Leaf]) -> LocalFunction:
    """Put steps together; whatever they use and do not compute is a capture."""
    known = {*parameters, *(leaf for step in steps for leaf in step.outputs)}
    used = [*(leaf for step in steps for leaf in step.inputs), *outputs]
    captures = list(dict.fromkeys(leaf for leaf in used if leaf not in known))
    return LocalFunction(parameters, captures, steps, outputs)


def needed_steps(outputs: Iterable[Leaf]) -> list[Step]:
    """Return the steps that lead to the outputs; a step comes after those that it depends on."""
    steps: set[Step] = set()
    waiting = [leaf.step for leaf in outputs if leaf.step]
    while waiting:
        step = waiting.pop()
        if step not in steps:
            steps.add(step)
            waiting.extend(leaf.step for leaf in step.inputs if leaf.step)
    return sorted(steps, key=lambda step: step.number)
