"""Runs a plan: the steps of the server in one call, those of a client in one call, the folds
between them."""

import concurrent.futures
import functools
from collections.abc import Callable, Sequence
from typing import Any, Optional, Union

from tff_partial.runtime.in_process import devices, folds, values
from tff_partial.runtime.in_process.functions import TracedFunction
from tff_partial.runtime.in_process.parallel import in_order
from tff_partial.runtime.in_process.plan import (
    CLIENTS,
    Fold,
    Leaf,
    Level,
    LocalFunction,
    Plan,
    flatten,
)

Accumulator = Union[folds.SumFold, folds.FunctionFold]
Known = dict[Leaf, Any]


class Workers:
    """The threads in which clients run, and the device."""

    def __init__(self, threads: int, device: str):
        self.threads = threads
        self.device = device
        self.pool: Optional[concurrent.futures.Executor] = None
        if threads > 1:
            self.pool = concurrent.futures.ThreadPoolExecutor(threads, "tff-client")

    def close(self) -> None:
        """Ends the threads."""
        if self.pool is not None:
            self.pool.shutdown()


class Execution:
    """A plan with its functions, traced once and used in every call."""

    def __init__(self, plan: Plan, workers: Workers):
        self._parameter = [] if plan.parameter is None else flatten(plan.parameter)
        self._result = flatten(plan.result)
        traced: dict[Any, TracedFunction] = {}
        self._levels = [_TracedLevel(level, workers, traced) for level in plan.levels]
        for level in plan.levels:
            for function in (
                level.server,
                level.clients,
                *(fold.accumulate for fold in level.folds),
            ):
                function.forget_graphs()

    def run(self, arguments: Sequence[Any], clients: int) -> list[Any]:
        """Runs the computation once.

        Args:
          arguments: a value for each leaf of the parameter, a list for a leaf at CLIENTS.
          clients: the number of clients.

        Returns:
          A value for each leaf of the result, a list for a leaf at CLIENTS.
        """
        known = dict(zip(self._parameter, arguments))
        for level in self._levels:
            level.run(known, clients)
        return [known[leaf] for leaf in self._result]


class _TracedLevel:
    def __init__(self, level: Level, workers: Workers, traced: dict[Any, TracedFunction]):
        self._level = level
        self._workers = workers
        self._server = _trace(level.server, workers.device, traced)
        self._clients = _trace(level.clients, workers.device, traced)
        self._accumulators = [_trace_fold(fold, workers.device) for fold in level.folds]

    def run(self, known: Known, clients: int) -> None:
        """Adds what the level computes to what is known."""
        level = self._level
        if self._server:
            results = self._server([known[leaf] for leaf in level.server.captures])
            known.update(zip(level.server.outputs, results))
        if level.clients.steps or level.folds:
            self._run_clients(known, clients)

    def _run_clients(self, known: Known, clients: int) -> None:
        running = [self._start(i, known) for i in range(len(self._accumulators))]
        known.update((leaf, [None] * clients) for leaf in self._level.kept)

        def finish(position: int, results: Known) -> None:
            for leaf in self._level.kept:
                known[leaf][position] = results[leaf]
            for fold, accumulator in zip(self._level.folds, running):
                accumulator.add(
                    [_of_client(leaf, position, results, known) for leaf in fold.values]
                )

        in_order(self._work(known), finish, clients, self._workers.pool, self._workers.threads)
        for fold, accumulator in zip(self._level.folds, running):
            known.update(zip(fold.outputs, accumulator.finish()))

    def _start(self, i: int, known: Known) -> Accumulator:
        fold = self._level.folds[i]
        accumulator = self._accumulators[i]()
        captures = [known[leaf] for leaf in fold.accumulate.captures]
        zero = [values.to_tensor(known[leaf], leaf.type) for leaf in fold.zero]
        accumulator.start(zero, captures)
        return accumulator

    def _work(self, known: Known) -> Callable[[int], Known]:
        """The function of a client's position; what clients share becomes tensors only once."""
        function = self._clients
        if function is None:
            return lambda position: {}
        used, outputs = self._level.clients.captures, self._level.clients.outputs
        shared = {
            leaf: values.to_tensor(known[leaf], leaf.type)
            for leaf in used
            if leaf.region is not CLIENTS
        }

        def work(position: int) -> Known:
            arguments = [_of_client(leaf, position, shared, known) for leaf in used]
            return dict(zip(outputs, function(arguments)))

        return work


def _of_client(leaf: Leaf, position: int, first: Known, known: Known) -> Any:
    if leaf in first:
        return first[leaf]
    return known[leaf][position] if leaf.region is CLIENTS else known[leaf]


def _trace(
    function: LocalFunction, device: str, traced: dict[Any, TracedFunction]
) -> Optional[TracedFunction]:
    """The function traced, or one that has been traced already and does the same."""
    if not function.steps:
        return None
    signature = _signature(function)
    if signature is None:
        return TracedFunction(function, device)
    if signature not in traced:
        traced[signature] = TracedFunction(function, device)
    return traced[signature]


def _signature(function: LocalFunction) -> Any:
    """What a function does to its arguments, whatever leaves they are; None if it cannot be told.

    Rounds that call one computation several times have levels that differ in their leaves only.
    """
    graphs = [step.graph for step in function.steps]
    if None in graphs:
        return None
    given = (*function.captures, *function.parameters)
    leaves = (*given, *(leaf for step in function.steps for leaf in step.outputs))
    number = {leaf: i for i, leaf in enumerate(leaves)}
    steps = tuple(
        (graph.key, tuple(number[leaf] for leaf in step.inputs))  # type: ignore[union-attr]
        for graph, step in zip(graphs, function.steps)
    )
    outputs = tuple(number[leaf] for leaf in function.outputs)
    return steps, outputs, tuple(str(leaf.type) for leaf in given)


def _trace_fold(fold: Fold, device: str) -> Callable[[], Accumulator]:
    order = None if devices.is_gpu(device) else folds.summands(fold.accumulate)
    if order is not None:
        return functools.partial(folds.SumFold, order)
    return functools.partial(folds.FunctionFold, TracedFunction(fold.accumulate, device))
