"""Runs a plan: the server's steps in one call, each client's steps in one call, folds between."""

from collections.abc import Callable, Hashable, Mapping, Sequence
from typing import NamedTuple, Optional, Protocol, cast

from typing_extensions import TypeAlias

from tff_partial.core.types import Tensor
from tff_partial.runtime.in_process import folds, planner, values
from tff_partial.runtime.in_process.functions import TracedFunction
from tff_partial.runtime.in_process.parallel import ClientThreads, Finish
from tff_partial.runtime.in_process.planner import Block, Level, Plan
from tff_partial.runtime.in_process.steps import CLIENTS, Leaf, LeafValue, LocalFunction

Known: TypeAlias = dict[Leaf, LeafValue]
"""The leaves whose values are known so far in a call."""

Traced: TypeAlias = dict[Hashable, TracedFunction]
"""Traced functions by what they do (`_signature`)."""


class ClientStage(NamedTuple):
    """What clients do in a level."""

    captures: Sequence[Leaf]
    outputs: Sequence[Leaf]
    function: Optional[object]  # from the captures' values to the outputs'; None for nothing


class Clients(Protocol):
    """Where clients do their work: in threads of this process, or elsewhere."""

    def stages(self, block: Block, plan: Plan, traced: Traced) -> list[ClientStage]:
        """Prepare what clients do in each level of a plan, which was made of `block`."""

    def run(
        self, level: Level, known: Known, stages: Sequence[ClientStage], finish: Finish[Known]
    ) -> None:
        """Call `finish(i, results)` for each client i, in order.

        Args:
          level: The level.
          known: The values that the stages' captures have.
          stages: What each client does.
          finish: Takes the number of a client and its results.
        """


class ThreadedClients:
    """Clients that run in threads of this process.

    Thread i works on device i, and so on from the first one if there are more threads.
    """

    def __init__(self, threads: ClientThreads, devices: Sequence[str]):
        self._threads = threads
        self._devices = devices

    def stages(self, block: Block, plan: Plan, traced: Traced) -> list[ClientStage]:
        return trace_clients(plan, traced)

    def run(
        self, level: Level, known: Known, stages: Sequence[ClientStage], finish: Finish[Known]
    ) -> None:
        self._threads.run_in_order(_work(known, stages, self._devices), finish, len(stages))


class Execution:
    """A computation in its native form, its functions traced once and used in every call.

    The server's part and the sums are on `device`.
    """

    def __init__(self, block: Block, clients: Clients, device: str):
        self._plan = plan = planner.make_plan(block)
        self._clients = clients
        traced: Traced = {}
        self.stages = clients.stages(block, plan, traced)
        self._levels = [_TracedLevel(level, clients, device, traced) for level in plan.levels]
        forget_graphs(plan)

    def trace_like(self, block: Block) -> list[ClientStage]:
        """Trace what clients do in a computation that differs from this one in nothing else.

        Raises:
          ValueError: If it does.
        """
        plan = planner.make_plan(block)
        own, others = self._plan.leaves(), plan.leaves()
        if [(str(x.type), x.region) for x in own] != [(str(x.type), x.region) for x in others]:
            raise ValueError("tiers must differ in what clients do only. Received: other steps")
        same = dict(zip(others, own))
        stages = [
            ClientStage([same[x] for x in captures], [same[x] for x in outputs], function)
            for captures, outputs, function in self._clients.stages(block, plan, {})
        ]
        forget_graphs(plan)
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
    """A level with the functions of the server and of the folds."""

    def __init__(self, level: Level, clients: Clients, device: str, traced: Traced):
        self._level = level
        self._clients = clients
        self._device = device
        self._server = _trace(level.server, traced)
        self._start_folds = [folds.prepare(fold.accumulate, device) for fold in level.folds]

    def run(self, known: Known, stages: Sequence[ClientStage]) -> None:
        """Add what the level computes to what is known; `stages` are those of the clients."""
        level = self._level
        if self._server:
            arguments = [known[leaf] for leaf in level.server.captures]
            results = self._server(arguments, self._device)
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
                accumulator.add([of_client(leaf, client, results, known) for leaf in fold.values])

        self._clients.run(self._level, known, stages, finish)
        known.update(kept)
        for fold, accumulator in zip(self._level.folds, accumulators):
            known.update(zip(fold.outputs, accumulator.finish()))


def _work(
    known: Known, stages: Sequence[ClientStage], devices: Sequence[str]
) -> Callable[[int, int], Known]:
    """Return the work of (client, thread); what clients share goes to each device only once."""
    used = dict.fromkeys(leaf for s in {id(s): s for s in stages}.values() for leaf in s.captures)
    of_all = [leaf for leaf in used if leaf.region is not CLIENTS]
    shared = [
        {leaf: values.on_device(known[leaf], leaf.type, device) for leaf in of_all}
        for device in devices
    ]

    def work(client: int, thread: int) -> Known:
        stage, place = stages[client], thread % len(devices)
        if stage.function is None:
            return {}
        arguments = [of_client(leaf, client, shared[place], known) for leaf in stage.captures]
        function = cast(TracedFunction, stage.function)
        return dict(zip(stage.outputs, function(arguments, devices[place])))

    return work


def of_client(leaf: Leaf, client: int, first: Mapping[Leaf, Tensor], known: Known) -> LeafValue:
    """Return a leaf's value for a client, from `first` if it is there."""
    if leaf in first:
        return first[leaf]
    return known[leaf][client] if leaf.region is CLIENTS else known[leaf]


def trace_clients(plan: Plan, traced: Traced) -> list[ClientStage]:
    """Trace what clients do in each level of a plan."""
    functions = [level.clients for level in plan.levels]
    return [ClientStage(f.captures, f.outputs, _trace(f, traced)) for f in functions]


def forget_graphs(plan: Plan) -> None:
    """Free what only tracing needs."""
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
