"""Aggregation: each client's values are folded into an accumulator, in the order of the clients.

The order does not depend on which client finishes first, so neither does the result, to the last
bit.
"""

import functools
from collections.abc import Callable, Sequence
from typing import Optional, Union

import numpy as np
import tensorflow as tf
import tensorflow_federated as tff
from typing_extensions import TypeAlias

from tff_partial.core.types import Array, Tensor
from tff_partial.runtime.in_process import devices, values
from tff_partial.runtime.in_process.functions import TracedFunction
from tff_partial.runtime.in_process.graphs import PreparedGraph
from tff_partial.runtime.in_process.nodes import node_name
from tff_partial.runtime.in_process.steps import Leaf, LeafType, LeafValue, LocalFunction

# The alignment of memory that TensorFlow's kernels require, in bytes.
_ALIGNMENT = 64

_Expression: TypeAlias = Union[Leaf, tuple[Leaf, Leaf], None]
"""What a fold computes from its parameters: one of them, the sum of two, or None for the rest."""


class SumFold:
    """Plain sums, in place: no new accumulator for each client."""

    def __init__(self, order: Sequence[int], zero: Sequence[Tensor]):
        self._order = order
        self._sums = [_aligned_copy(values.to_numpy(z)) for z in zero]

    def add(self, client: Sequence[LeafValue]) -> None:
        with np.errstate(all="ignore"):
            for total, position in zip(self._sums, self._order):
                np.add(total, values.to_numpy(client[position]), out=total)

    def finish(self) -> list[Tensor]:
        # Tensors of the same memory, which nobody changes any more.
        return [tf.experimental.dlpack.from_dlpack(total.__dlpack__()) for total in self._sums]


class FunctionFold:
    """Any other aggregation, as a function of TensorFlow."""

    def __init__(
        self,
        function: TracedFunction,
        device: str,
        zero: list[Tensor],
        captures: Sequence[LeafValue],
    ):
        self._function = function
        self._device = device
        self._accumulator = zero
        self._captures = captures

    def add(self, client: Sequence[LeafValue]) -> None:
        arguments = [*self._captures, *self._accumulator, *client]
        self._accumulator = self._function(arguments, self._device)

    def finish(self) -> list[Tensor]:
        return self._accumulator


StartFold: TypeAlias = Callable[[list[Tensor], Sequence[LeafValue]], Union[SumFold, FunctionFold]]
"""(Zero, captures) -> an accumulator; one is started in every call of the computation."""


def prepare(accumulate: LocalFunction, device: str) -> StartFold:
    """Prepare an aggregation; `accumulate` takes the accumulator's leaves, then a client's."""
    order = None if devices.is_gpu(device) else _summands(accumulate)
    if order is not None:
        return lambda zero, captures: SumFold(order, zero)
    function = TracedFunction(accumulate)
    return functools.partial(FunctionFold, function, device)


def is_sum(accumulate: LocalFunction) -> bool:
    """Return whether an aggregation only adds up."""
    return _summands(accumulate) is not None


def _aligned_copy(value: Array) -> Array:
    """Copy an array to memory that a tensor can share.

    Zeros are not written: they take no memory until the first client is added, when it has given
    back what it trained with.
    """
    value = np.asarray(value)
    memory = np.zeros(value.nbytes + _ALIGNMENT, np.uint8)
    start = -memory.ctypes.data % _ALIGNMENT
    part = memory[start : start + value.nbytes]
    copy = part.view(value.dtype).reshape(value.shape)
    if np.any(value.reshape(-1).view(np.uint8)):
        copy[...] = value
    return copy


def _summands(function: LocalFunction) -> Optional[list[int]]:
    """Recognize a plain sum.

    Returns:
      For each leaf of the accumulator the position of the client's leaf that is added to it; None
      if the function does anything else.
    """
    count = len(function.outputs)
    accumulator, client = function.parameters[:count], function.parameters[count:]
    known: dict[Leaf, _Expression] = {leaf: leaf for leaf in function.parameters}
    for step in function.steps:
        if step.graph is None:
            return None
        arguments = [known.get(leaf) for leaf in step.inputs]
        known.update(zip(step.outputs, _expressions(step.graph, arguments)))
    order = []
    for total, output in zip(accumulator, function.outputs):
        terms = known.get(output)
        if not isinstance(terms, tuple) or terms[0] is not total or terms[1] not in client:
            return None
        order.append(client.index(terms[1]))
    return order


def _expressions(graph: PreparedGraph, arguments: list[_Expression]) -> list[_Expression]:
    nodes = {node.name: node for node in graph.graph_def.node}
    fed = {node_name(name): argument for name, argument in zip(graph.feeds, arguments)}

    def source(name: str) -> str:
        name = node_name(name)
        while name not in fed and nodes[name].op == "Identity" and len(nodes[name].input) == 1:
            name = node_name(nodes[name].input[0])
        return name

    def expression(name: str) -> _Expression:
        name = source(name)
        if name in fed:
            return fed[name]
        if nodes[name].op not in ("Add", "AddV2") or len(nodes[name].input) != 2:
            return None
        left, right = (fed.get(source(i)) for i in nodes[name].input)
        if isinstance(left, Leaf) and isinstance(right, Leaf):
            return (left, right) if _same_tensors(left.type, right.type) else None
        return None

    return [expression(name) for name in graph.fetches]


def _same_tensors(left: LeafType, right: LeafType) -> bool:
    """Return whether two tensors are added number by number, without broadcasting."""
    if not isinstance(left, tff.TensorType) or not isinstance(right, tff.TensorType):
        return False
    known = tff.types.is_shape_fully_defined(left.shape) and left.shape == right.shape
    return known and left.dtype == right.dtype and left.dtype.kind in "iufc"
