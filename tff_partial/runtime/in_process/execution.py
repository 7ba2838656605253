"""Runs a plan: the server's steps in one call, each client's steps in one call, folds between."""

from collections.abc import Callable, Hashable, Mapping, Sequence
from typing import NamedTuple, Optional

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


class ClientStage(NamedTuple):
    """What clients do in a level: a function of the captures' values, None if they do nothing."""

    captures: Sequence[Leaf]
    outputs: Sequence[Leaf]
    function: Optional[TracedFunction]


class Execution:
    """A plan with its functions, traced once and used in every call."""

    def __init__(self, plan: Plan, threads: ClientThreads, devices: Sequence[str]):
        self._plan = plan
        traced: Traced = {}
        self.stages = _trace_clients(plan, traced)
        self._levels = [_TracedLevel(level, threads, devices, traced) for level in plan.levels]
        _forget_graphs(plan)

    def trace_like(self, plan: Plan) -> list[ClientStage]:
        """Trace what clients do in a plan that differs from this one in nothing else.

        Raises:
          ValueError: If it does.
        """
        own, others = self._plan.leaves(), plan.leaves()
        if [(str(x.type), x.region) for x in own] != [(str(x.type), x.region) for x in others]:
            raise ValueError("tiers must differ in what clients do only. Received: other steps")
        same = dict(zip(others, own))
        stages = [
            ClientStage([same[x] for x in captures], [same[x] for x in outputs], function)
            for captures, outputs, function in _trace_clients(plan, {})
        ]
        _forget_graphs(plan)
        return stages

    def run(
        self, arguments: Sequence[LeafValue], stages: Sequence[Sequence[ClientStage]]
    ) -> list[LeafValue]:
        """Run the computation once: values of the parameter's leaves -> of the result's leaves.

        Each client has stages, one for each level: `self.stages`, or what `trace_like` returned.
        """
        known = dict(zip(self._plan.parameter, arguments))
        for number, level in enumerate(self._levels):
            level.run(known, [of_client[number] for of_client in stages])
        return [known[leaf] for leaf in self._plan.result]


class _TracedLevel:
    """A level with the functions of the server and of the folds, which run on the first device."""

    def __init__(
        self, level: Level, threads: ClientThreads, devices: Sequence[str], traced: Traced
    ):
        self._level = level
        self._threads = threads
        self._devices = devices
        self._server = _trace(level.server, traced)
        self._start_folds = [folds.prepare(fold.accumulate, devices[0]) for fold in level.folds]

    def run(self, known: Known, stages: Sequence[ClientStage]) -> None:
        """Add what the level computes to what is known; `stages` are those of the clients."""
        level = self._level
        if self._server:
            arguments = [known[leaf] for leaf in level.server.captures]
            results = self._server(arguments, self._devices[0])
            known.update(zip(level.server.outputs, results))
        if level.clients.steps or level.folds:
            self._run_clients(known, stages)

    def _run_clients(self, known: Known, stages: Sequence[ClientStage]) -> None:
        kept: Known = {leaf: [None] * len(stages) for leaf in self._level.kept}
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

        self._threads.run_in_order(_work(known, stages, self._devices), finish, len(stages))
        known.update(kept)
        for fold, accumulator in zip(self._level.folds, accumulators):
            known.update(zip(fold.outputs, accumulator.finish()))


def _work(
    known: Known, stages: Sequence[ClientStage], devices: Sequence[str]
) -> Callable[[int, int], Known]:
    """Return a client's work; what clients share goes to each device only once.

    Thread i works on device i, and so on from the first one if there are more threads.
    """
    used = {leaf for captures in {id(s): s.captures for s in stages}.values() for leaf in captures}
    of_all = [leaf for leaf in used if leaf.region is not CLIENTS]
    shared = [
        {leaf: values.on_device(known[leaf], leaf.type, device) for leaf in of_all}
        for device in devices
    ]

    def work(client: int, thread: int) -> Known:
        stage, place = stages[client], thread % len(devices)
        if stage.function is None:
            return {}
        arguments = [_of_client(leaf, client, shared[place], known) for leaf in stage.captures]
        return dict(zip(stage.outputs, stage.function(arguments, devices[place])))

    return work


def _of_client(leaf: Leaf, client: int, first: Mapping[Leaf, Tensor], known: Known) -> LeafValue:
    """Return a leaf's value for a client, from `first` if it is there."""
    if leaf in first:
        return first[leaf]
    return known[leaf][client] if leaf.region is CLIENTS else known[leaf]


def _trace_clients(plan: Plan, traced: Traced) -> list[ClientStage]:
    functions = [level.clients for level in plan.levels]
    return [ClientStage(f.captures, f.outputs, _trace(f, traced)) for f in functions]


def _forget_graphs(plan: Plan) -> None:
    for level in plan.levels:
        for function in (level.server, level.clients, *(fold.accumulate for fold in level.folds)):
            function.forget_graphs()


def _trace(function: LocalFunction, traced: Traced) -> Optional[TracedFunction]:
    """Trace a function unless it is empty or one that does the same has been traced already."""
    if not function.steps:
        return None
    signature = _signature(function)
    if signature not in traced:
        traced[signature] = TracedFunction(function)
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
