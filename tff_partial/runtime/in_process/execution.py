"""Runs a plan: the server's steps in one call, each client's steps in one call, folds between."""

from collections.abc import Callable, Hashable, Mapping, Sequence
from typing import Optional

from typing_extensions import TypeAlias

from tff_partial.core.types import Tensor
from tff_partial.runtime.in_process import folds, values
from tff_partial.runtime.in_process.functions import TracedFunction
from tff_partial.runtime.in_process.parallel import ClientThreads
from tff_partial.runtime.in_process.planner import Level, Plan
from tff_partial.runtime.in_process.steps import CLIENTS, Leaf, LeafValue, LocalFunction

Known: TypeAlias = dict[Leaf, LeafValue]
"""The leaves whose values are known so far in a call."""

Traced: TypeAlias = dict[Hashable, TracedFunction]
"""Traced functions by what they do (`_signature`)."""


class Execution:
    """A plan with its functions, traced once and used in every call."""

    def __init__(self, plan: Plan, threads: ClientThreads, device: str):
        self._parameter = plan.parameter
        self._result = plan.result
        traced: Traced = {}
        self._levels = [_TracedLevel(level, threads, device, traced) for level in plan.levels]
        for level in plan.levels:
            accumulations = (fold.accumulate for fold in level.folds)
            for function in (level.server, level.clients, *accumulations):
                function.forget_graphs()

    def run(self, arguments: Sequence[LeafValue], clients: int) -> list[LeafValue]:
        """Run the computation once: values of the parameter's leaves -> of the result's leaves."""
        known = dict(zip(self._parameter, arguments))
        for level in self._levels:
            level.run(known, clients)
        return [known[leaf] for leaf in self._result]


class _TracedLevel:
    """A level with its functions."""

    def __init__(self, level: Level, threads: ClientThreads, device: str, traced: Traced):
        self._level = level
        self._threads = threads
        self._server = _trace(level.server, device, traced)
        self._clients = _trace(level.clients, device, traced)
        self._start_folds = [folds.prepare(fold.accumulate, device) for fold in level.folds]

    def run(self, known: Known, clients: int) -> None:
        """Add what the level computes to what is known."""
        level = self._level
        if self._server:
            results = self._server([known[leaf] for leaf in level.server.captures])
            known.update(zip(level.server.outputs, results))
        if level.clients.steps or level.folds:
            self._run_clients(known, clients)

    def _run_clients(self, known: Known, clients: int) -> None:
        kept: Known = {leaf: [None] * clients for leaf in self._level.kept}
        accumulators = [
            start(
                [values.to_tensor(known[leaf], leaf.type) for leaf in fold.zero],
                [known[leaf] for leaf in fold.accumulate.captures],
            )
            for start, fold in zip(self._start_folds, self._level.folds)
        ]

        def finish(client: int, results: Known) -> None:
            for leaf, column in kept.items():
                column[client] = results[leaf]
            for fold, accumulator in zip(self._level.folds, accumulators):
                accumulator.add([_of_client(leaf, client, results, known) for leaf in fold.values])

        self._threads.run_in_order(self._work(known), finish, clients)
        known.update(kept)
        for fold, accumulator in zip(self._level.folds, accumulators):
            known.update(zip(fold.outputs, accumulator.finish()))

    def _work(self, known: Known) -> Callable[[int], Known]:
        """Return a client's work; what clients share becomes tensors only once."""
        function = self._clients
        if function is None:
            return lambda client: {}
        used, outputs = self._level.clients.captures, self._level.clients.outputs
        shared = {
            leaf: values.to_tensor(known[leaf], leaf.type)
            for leaf in used
            if leaf.region is not CLIENTS
        }

        def work(client: int) -> Known:
            arguments = [_of_client(leaf, client, shared, known) for leaf in used]
            return dict(zip(outputs, function(arguments)))

        return work


def _of_client(leaf: Leaf, client: int, first: Mapping[Leaf, Tensor], known: Known) -> LeafValue:
    """Return a leaf's value for a client, from `first` if it is there."""
    if leaf in first:
        return first[leaf]
    return known[leaf][client] if leaf.region is CLIENTS else known[leaf]


def _trace(function: LocalFunction, device: str, traced: Traced) -> Optional[TracedFunction]:
    """Trace a function unless it is empty or one that does the same has been traced already."""
    if not function.steps:
        return None
    signature = _signature(function)
    if signature not in traced:
        traced[signature] = TracedFunction(function, device)
    return traced[signature]


def _signature(function: LocalFunction) -> Hashable:
    """Return what a function does to its arguments, whatever leaves they are.

    Rounds that call one computation several times have levels that differ in their leaves only.
    """
    given = (*function.captures, *function.parameters)
    leaves = (*given, *(leaf for step in function.steps for leaf in step.outputs))
    number = {leaf: i for i, leaf in enumerate(leaves)}
    # Only of graphs it is known whether they do the same.
    steps = tuple(
        (step.graph.key if step.graph else step, tuple(number[leaf] for leaf in step.inputs))
        for step in function.steps
    )
    outputs = tuple(number[leaf] for leaf in function.outputs)
    return steps, outputs, tuple(str(leaf.type) for leaf in given)
