"""What is left of a TFF computation when everything but tensors has been evaluated.

TFF's language has functions, structures, placements and intrinsics. `tff_partial.runtime.planner`
evaluates all of that once, when a computation is first called. What remains, and is run in every
call, is a list of steps on *leaves* (tensors and sequences), each step belonging to the server or
to every client:

    server steps -> client steps, their results folded in client order -> server steps -> ...

A `Level` is one such pair; a computation with one aggregation has two, one with k aggregations that
depend on each other k + 1.
"""

import dataclasses
import itertools
from collections.abc import Callable, Iterable
from typing import Any, Optional, Union

import tensorflow_federated as tff


class Region:
    """Where a step runs: SERVER, CLIENTS, or inside of a function (a fold, a sequence's map)."""

    def __init__(self, name: str):
        self.name = name


_step_numbers = itertools.count()

SERVER = Region("server")
CLIENTS = Region("clients")


class Leaf:
    """One tensor or sequence: a parameter, or a result of a step.

    Attributes:
      type: its `tff.TensorType` or `tff.SequenceType`.
      region: where it is computed. A value at CLIENTS that is the same for all is a SERVER leaf.
      step: the step that yields it; `None` for a parameter.
      level: the number of folds that have to be finished before it is known.
    """

    __slots__ = ("level", "region", "step", "type")

    def __init__(self, type_spec: Any, region: Region, step: Optional["Step"] = None):
        self.type = type_spec
        self.region = region
        self.step = step
        self.level = step.level if step else 0


# A value while planning: structures are tuples, functions take an argument and the region of the
# call.
Function = Callable[[Any, Region], Any]
Value = Union[Leaf, tuple, Function]

# What a step does: it is given the tensors of its inputs and returns those of its results, while a
# function is traced.
Emit = Callable[[list[Any]], list[Any]]


class Step:
    """A piece of TensorFlow: `emit` adds it to the function that is being traced.

    Attributes:
      graph: the `PreparedGraph` of a step that is nothing else.
      exclusive: whether two calls at a time could disturb each other.
      level: see `Leaf`.
    """

    def __init__(
        self,
        emit: Optional[Emit],
        inputs: Iterable[Leaf],
        output_types: Iterable[Any],
        region: Region,
        graph: Optional[Any] = None,
        exclusive: bool = False,
    ):
        self.number = next(_step_numbers)
        self.emit = emit
        self.inputs = tuple(inputs)
        self.region = region
        self.graph = graph
        self.exclusive = exclusive
        self.level = self._own_level()
        self.outputs = tuple(Leaf(t, region, self) for t in output_types)

    def _own_level(self) -> int:
        return max((leaf.level for leaf in self.inputs), default=0)


class Fold(Step):
    """An aggregation: `accumulate` adds a client's `values` to what starts as `zero`."""

    def __init__(
        self, values: list[Leaf], zero: list[Leaf], accumulate: "LocalFunction", types: list[Any]
    ):
        self.values = values
        self.zero = zero
        self.accumulate = accumulate
        super().__init__(None, [*values, *zero, *accumulate.captures], types, SERVER)

    def _own_level(self) -> int:
        return super()._own_level() + 1


@dataclasses.dataclass(frozen=True)
class LocalFunction:
    """Steps that are run together.

    Attributes:
      parameters: leaves that get a value in every call.
      captures: leaves of elsewhere that the steps use.
      steps: in the order in which they can run.
      outputs: the leaves that are returned.
    """

    parameters: tuple[Leaf, ...]
    captures: tuple[Leaf, ...]
    steps: tuple[Step, ...]
    outputs: tuple[Leaf, ...]

    @property
    def exclusive(self) -> bool:
        return any(step.exclusive for step in self.steps)

    def emit(self, parameters: Iterable[Any], captures: Iterable[Any]) -> list[Any]:
        """Adds the steps to the function that is being traced and returns the outputs' tensors."""
        known = dict(zip(self.parameters, parameters))
        known.update(zip(self.captures, captures))
        for step in self.steps:
            if step.emit is None:
                raise NotImplementedError("in_process cannot aggregate inside of a local function")
            known.update(zip(step.outputs, step.emit([known[leaf] for leaf in step.inputs])))
        return [known[leaf] for leaf in self.outputs]

    def forget_graphs(self) -> None:
        """Frees what only tracing needs."""
        for step in self.steps:
            step.emit = step.graph = None


@dataclasses.dataclass(frozen=True)
class Level:
    """Server steps, then the steps of every client, then the folds of their results."""

    server: LocalFunction
    clients: LocalFunction
    folds: tuple[Fold, ...]
    kept: tuple[Leaf, ...]


@dataclasses.dataclass(frozen=True)
class Plan:
    """A computation: the leaves of its parameter (`None` for none), the levels, and its result."""

    parameter: Optional[Value]
    levels: tuple[Level, ...]
    result: Value


def leaves_of_type(type_spec: Any) -> list[Any]:
    """The tensor and sequence types in a type, in order; placements are looked through."""
    if isinstance(type_spec, (tff.TensorType, tff.SequenceType)):
        return [type_spec]
    if isinstance(type_spec, tff.FederatedType):
        return leaves_of_type(type_spec.member)
    if isinstance(type_spec, tff.StructType):
        return [leaf for element in type_spec for leaf in leaves_of_type(element)]
    raise NotImplementedError(f"in_process has no values of type {type_spec}")


def flatten(value: Value) -> list[Leaf]:
    """The leaves of a value, in order."""
    if isinstance(value, Leaf):
        return [value]
    if isinstance(value, tuple):
        return [leaf for element in value for leaf in flatten(element)]
    raise NotImplementedError("in_process cannot pass a function where a value is expected")


def pack(type_spec: Any, leaves: Iterable[Any]) -> Any:
    """The inverse of `flatten`: nested tuples as in the type."""
    return _pack(type_spec, iter(leaves))


def _pack(type_spec: Any, leaves: Any) -> Any:
    if isinstance(type_spec, tff.FederatedType):
        return _pack(type_spec.member, leaves)
    if isinstance(type_spec, tff.StructType):
        return tuple(_pack(element, leaves) for element in type_spec)
    return next(leaves)


def function_of(
    parameters: Iterable[Leaf], outputs: Iterable[Leaf], region: Region
) -> LocalFunction:
    """The steps of a region that lead from parameters to outputs."""
    outputs = tuple(outputs)
    steps = [step for step in _needed_steps(outputs) if step.region is region]
    return _function(tuple(parameters), steps, outputs)


def _function(
    parameters: tuple[Leaf, ...], steps: Iterable[Step], outputs: tuple[Leaf, ...]
) -> LocalFunction:
    # A step is created after those that it depends on.
    steps = tuple(sorted(steps, key=lambda step: step.number))
    known = {*parameters, *(leaf for step in steps for leaf in step.outputs)}
    used = [*(leaf for step in steps for leaf in step.inputs), *outputs]
    captures = dict.fromkeys(leaf for leaf in used if leaf not in known)
    return LocalFunction(parameters, tuple(captures), steps, outputs)


def _needed_steps(outputs: Iterable[Leaf]) -> list[Step]:
    steps: dict[Step, None] = {}
    waiting = [leaf.step for leaf in outputs if leaf.step]
    while waiting:
        step = waiting.pop()
        if step not in steps:
            steps[step] = None
            waiting.extend(leaf.step for leaf in step.inputs if leaf.step)
    return sorted(steps, key=lambda step: step.number)


def plan_levels(result: Value) -> tuple[Level, ...]:
    """Orders what the result needs into levels."""
    results = set(flatten(result))
    steps = _needed_steps(results)
    last = max((step.level for step in steps), default=0)
    return tuple(_level(number, steps, results) for number in range(last + 1))


def _level(number: int, steps: list[Step], results: set[Leaf]) -> Level:
    folds = tuple(s for s in steps if isinstance(s, Fold) and s.level == number + 1)
    server = _stage(number, steps, results, SERVER)
    clients = _stage(number, steps, results, CLIENTS)
    later = (step for step in steps if step.level > number and step not in folds)
    needed = results.union(*(step.inputs for step in later))
    return Level(server, clients, folds, tuple(leaf for leaf in clients.outputs if leaf in needed))


def _stage(number: int, steps: list[Step], results: set[Leaf], region: Region) -> LocalFunction:
    own = [s for s in steps if s.region is region and s.level == number and not isinstance(s, Fold)]
    others = (step for step in steps if step not in own)
    wanted = results.union(*(step.inputs for step in others))
    outputs = tuple(leaf for step in own for leaf in step.outputs if leaf in wanted)
    return _function((), own, outputs)
