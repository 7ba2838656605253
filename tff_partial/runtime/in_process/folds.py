"""Aggregation over clients: each client's values are folded into the accumulator, in the order of
the clients.

The order does not depend on which client finishes first, so neither does the result, to the last
bit.
"""

from collections.abc import Sequence
from typing import Any, Optional, Union

import numpy as np
import tensorflow_federated as tff

from tff_partial.runtime.in_process import values
from tff_partial.runtime.in_process.functions import TracedFunction
from tff_partial.runtime.in_process.graphs import PreparedGraph, node_name
from tff_partial.runtime.in_process.plan import Leaf, LocalFunction

# An expression in a fold's parameters: one of them, or the sum of two.
_Expression = Union[Leaf, tuple[Leaf, Leaf], None]


class SumFold:
    """Plain sums, in place: no new accumulator for each client."""

    def __init__(self, order: Sequence[int]):
        self._order = order

    def start(self, zero: Sequence[Any], unused_captures: Sequence[Any]) -> None:
        self._sums = [values.aligned_copy(values.to_numpy(z)) for z in zero]

    def add(self, client: Sequence[Any]) -> None:
        with np.errstate(all="ignore"):
            for total, position in zip(self._sums, self._order):
                np.add(total, values.to_numpy(client[position]), out=total)

    def finish(self) -> list[Any]:
        return [values.as_tensor(total) for total in self._sums]


class FunctionFold:
    """Any other aggregation, as a function of TensorFlow."""

    def __init__(self, function: TracedFunction):
        self._function = function

    def start(self, zero: Sequence[Any], captures: Sequence[Any]) -> None:
        self._captures = list(captures)
        self._accumulator = list(zero)

    def add(self, client: Sequence[Any]) -> None:
        self._accumulator = self._function([*self._captures, *self._accumulator, *client])

    def finish(self) -> list[Any]:
        return self._accumulator


def summands(function: LocalFunction) -> Optional[list[int]]:
    """Recognises a plain sum.

    Args:
      function: the accumulation; its parameters are the accumulator's leaves, then a client's.

    Returns:
      For each leaf of the accumulator the position of the client's leaf that is added to it; `None`
      when the function does anything else.
    """
    count = len(function.outputs)
    accumulator, client = function.parameters[:count], function.parameters[count:]
    known: dict[Leaf, _Expression] = {leaf: leaf for leaf in function.parameters}
    for step in function.steps:
        if step.graph is None:
            return None
        arguments = [known.get(leaf) for leaf in step.inputs]
        known.update(zip(step.outputs, _sums_in(step.graph, arguments)))
    order = []
    for total, output in zip(accumulator, function.outputs):
        terms = known.get(output)
        if not isinstance(terms, tuple) or terms[0] is not total or terms[1] not in client:
            return None
        order.append(client.index(terms[1]))
    return order


def _sums_in(graph: PreparedGraph, arguments: list[_Expression]) -> list[_Expression]:
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
        if (
            isinstance(left, Leaf)
            and isinstance(right, Leaf)
            and _same_tensors(left.type, right.type)
        ):
            return left, right
        return None

    return [expression(name) for name in graph.fetches]


def _same_tensors(left: Any, right: Any) -> bool:
    """Whether two tensors are added number by number, without broadcasting."""
    if not isinstance(left, tff.TensorType) or not isinstance(right, tff.TensorType):
        return False
    known = tff.types.is_shape_fully_defined(left.shape) and left.shape == right.shape
    return known and left.dtype == right.dtype and left.dtype.kind in "iufc"
