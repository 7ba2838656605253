"""The clients of one level, under way on actors."""

from __future__ import annotations

import collections
import dataclasses
from collections.abc import Sequence
from typing import NamedTuple, Optional, cast

import numpy as np
import ray
import tensorflow as tf
import tensorflow_federated as tff

from tff_partial.runtime.errors import WorkersLostError
from tff_partial.runtime.in_process import parallel
from tff_partial.runtime.in_process.execution import ClientStage, Known
from tff_partial.runtime.in_process.parallel import Finish
from tff_partial.runtime.in_process.planner import Level
from tff_partial.runtime.in_process.steps import CLIENTS, Leaf, LeafValue
from tff_partial.runtime.ray import wire
from tff_partial.runtime.ray.messages import Argument, Call, Failure, Kept, Reference, Reply
from tff_partial.runtime.ray.pool import Member, Pool, reason
from tff_partial.runtime.ray.schedule import Home, Schedule
from tff_partial.runtime.ray.store import Store
from tff_partial.runtime.ray.wire import Packed

# Seconds that a call should take: its own cost is about a millisecond.
_CALL = 0.05
_MOST = 8  # clients in a call
# How many calls an actor has at a time, so that it need not wait for the driver between short ones.
_AHEAD = 2
# For each client that an actor can have at a time: how many may be under way or wait for others.
_WINDOW = 3
# With partial sums: how many calls each actor gets in a round.
_SHARES = 4
# How often a client may lose its actor.
_LOSSES = 3
_PATIENCE = 1.0  # seconds without a result, after which the head is asked whether it is there


class RemoteStage(NamedTuple):
    """What clients do in a level of a computation that is in the store.

    Attributes:
      plan: The computation.
      level: The level.
      add_up: Whether actors add up the results, which are used for nothing else.
    """

    plan: Kept
    level: int
    add_up: bool


@dataclasses.dataclass
class Memory:
    """What is known from earlier rounds.

    Attributes:
      homes: By the name of a data set: who had it last.
      seconds: By level of a computation: how long one client took of late.
      used: The actors that took part since this was last emptied.
    """

    homes: dict[bytes, Home] = dataclasses.field(default_factory=dict)
    seconds: dict[tuple[bytes, int], float] = dataclasses.field(default_factory=dict)
    used: set[Home] = dataclasses.field(default_factory=set)


class _UnderWay(NamedTuple):
    member: Member
    jobs: list[int]


class Cohort:
    """Runs the clients of a level, once.

    A job is one client, or with partial sums several that are always added up together.
    """

    def __init__(
        self,
        pool: Pool,
        store: Store,
        memory: Memory,
        level: Level,
        known: Known,
        stages: Sequence[ClientStage],
        finish: Finish[Known],
    ) -> None:
        self._pool, self._store, self._memory = pool, store, memory
        self._known, self._stages, self._finish = known, stages, finish
        self._kept = set(level.kept)
        self._summed = {leaf for fold in level.folds for leaf in fold.values}
        distinct = list({id(stage): stage for stage in stages}.values())
        used = dict.fromkeys(leaf for stage in distinct for leaf in stage.captures)
        shared = [leaf for leaf in used if leaf.region is not CLIENTS]
        self._position = {leaf: i for i, leaf in enumerate(shared)}
        self._shared = store.shared([wire.pack(known[leaf], leaf.type) for leaf in shared])
        self._own: dict[int, list[Argument]] = {}
        self._jobs = _create_jobs(stages, len(pool.members))
        seconds = max(memory.seconds.get(_key(stage), _CALL) for stage in distinct)
        adds_up = any(_remote(stage).add_up for stage in distinct)
        self._ahead = 1 if seconds >= _CALL else _AHEAD
        self._most = 1 if adds_up else max(1, min(_MOST, int(_CALL / seconds)))
        self._schedule: Schedule[Known] = Schedule(
            [id(stages[clients[0]]) for clients in self._jobs],
            _WINDOW * self._ahead * self._most * len(pool.members),
        )
        self._under_way: dict[Reference, _UnderWay] = {}
        self._losses: collections.Counter[int] = collections.Counter()
        self._failures: dict[int, Failure] = {}

    def run(self) -> None:
        """Run all clients.

        Raises:
          Exception: That of the first client that failed, with the client in its message.
          WorkersLostError: If no actor is left, or a client has lost several.
        """
        while not self._schedule.done:
            if not self._failures:
                self._give()
            elif not self._under_way:
                raise self._error()
            self._wait()

    def _give(self) -> None:
        """Give clients to actors that are free, or soon will be."""
        calls = collections.Counter(id(under_way.member) for under_way in self._under_way.values())
        for has in range(self._ahead):
            for member in self._pool.members:
                if calls[id(member)] == has:
                    calls[id(member)] += self._give_to(member)

    def _give_to(self, member: Member) -> bool:
        """Call an actor; return whether there was something to do for it."""
        share = -(-self._schedule.waiting // (2 * len(self._pool.members)))
        jobs = self._schedule.take(member.home, min(self._most, share), self._home)
        if not jobs:
            return False
        clients = [client for job in jobs for client in self._jobs[job]]
        own = [self._arguments(client) for client in clients]
        remote = _remote(self._stages[clients[0]])
        captures = self._stages[clients[0]].captures
        positions = [self._position[leaf] for leaf in captures if leaf.region is not CLIENTS]
        call = Call(remote.plan, remote.level, self._shared, positions, own, remote.add_up)
        self._under_way[member.handle.run.remote(call)] = _UnderWay(member, jobs)
        self._memory.used.add(member.home)
        for client in clients:
            for argument in self._own.pop(client):
                if isinstance(argument, Kept):
                    self._memory.homes[argument.name] = member.home
        return True

    def _wait(self) -> None:
        """Use what comes next: results, a new actor, or the news that one is lost."""
        if not self._pool.members:
            self._pool.await_one()
        references = [*self._under_way, *self._pool.starting]
        if not references:
            return
        ready, _ = ray.wait(references, num_returns=1, timeout=_PATIENCE)
        if not ready:
            self._pool.check()
        for reference in ready:
            if reference in self._under_way:
                self._receive(reference)
            else:
                self._pool.take(reference)

    def _receive(self, reference: Reference) -> None:
        member, jobs = self._under_way.pop(reference)
        try:
            reply: Reply = ray.get(reference)
        except ray.exceptions.RayError as error:
            cause = getattr(error, "cause", error)
            # An actor on a node that is dying finds its connection gone, and may still say so.
            if not isinstance(cause, (ray.exceptions.RayError, OSError)):
                raise RuntimeError(f"an actor failed: {reason(error)}") from error
            self._lose(member, jobs, cause)
            return
        clients = [client for job in jobs for client in self._jobs[job]]
        if reply.failure is not None:
            self._failures[clients[reply.failure.client]] = reply.failure
            return
        stage = self._stages[clients[0]]
        self._memory.seconds[_key(stage)] = reply.seconds / len(clients)
        for job, values in zip(jobs, reply.results):
            results = {leaf: self._received(leaf, x) for leaf, x in zip(stage.outputs, values)}
            results.update(self._common(len(self._jobs[job])))
            for done, in_turn in self._schedule.finish(job, results):
                self._finish(self._jobs[done][0], in_turn)

    def _common(self, clients: int) -> Known:
        """Return what several clients add to sums together of what all of them share."""
        if clients == 1:
            return {}
        shared = (leaf for leaf in self._summed if leaf.region is not CLIENTS)
        values = {leaf: np.asarray(self._known[leaf]) for leaf in shared}
        return {leaf: np.multiply(v, clients, dtype=v.dtype) for leaf, v in values.items()}

    def _received(self, leaf: Leaf, value: Packed) -> LeafValue:
        """Return a result; an array that is kept leaves the object store."""
        if isinstance(leaf.type, tff.SequenceType):
            return wire.unpack(value, leaf.type)
        return np.array(value) if leaf in self._kept else value

    def _lose(self, member: Member, jobs: Sequence[int], error: Exception) -> None:
        """Let others compute what an actor has not returned."""
        self._pool.check()
        self._pool.lose(member)
        self._schedule.give_back(jobs)
        self._losses.update(jobs)
        job = max(jobs, key=lambda job: self._losses[job])
        if self._losses[job] > _LOSSES:
            raise WorkersLostError(
                f"client {self._jobs[job][0]} of {len(self._stages)} (counted from 0) lost its "
                f"actor {self._losses[job]} times: {reason(error)}"
            )

    def _error(self) -> Exception:
        """Return the error of the first client that failed."""
        client, (_, code, text) = min(self._failures.items())
        error: Exception = RuntimeError(text)
        if code is not None:
            error = tf.compat.v1.errors.exception_type_from_error_code(code)(None, None, text)
        return parallel.with_client(error, client, len(self._stages))

    def _arguments(self, client: int) -> list[Argument]:
        """Return a client's own values; its data set is put when it is first needed."""
        if client not in self._own:
            leaves = (x for x in self._stages[client].captures if x.region is CLIENTS)
            self._own[client] = [self._argument(leaf, client) for leaf in leaves]
        return self._own[client]

    def _argument(self, leaf: Leaf, client: int) -> Argument:
        value = self._known[leaf][client]
        if isinstance(leaf.type, tff.SequenceType):
            return self._store.data_set(value)
        return wire.pack(value, leaf.type)

    def _home(self, job: int) -> Optional[Home]:
        kept = (a for a in self._arguments(self._jobs[job][0]) if isinstance(a, Kept))
        homes = (self._memory.homes.get(argument.name) for argument in kept)
        return next((home for home in homes if home is not None), None)


def _remote(stage: ClientStage) -> RemoteStage:
    return cast(RemoteStage, stage.function)


def _key(stage: ClientStage) -> tuple[bytes, int]:
    return _remote(stage).plan.name, _remote(stage).level


def _create_jobs(stages: Sequence[ClientStage], actors: int) -> list[list[int]]:
    """Return each client alone; for partial sums, those of a tier in shares for the actors."""
    by_stage: dict[int, list[int]] = {}
    for client, stage in enumerate(stages):
        by_stage.setdefault(id(stage), []).append(client)
    size = -(-len(stages) // (_SHARES * actors))
    jobs = []
    for clients in by_stage.values():
        step = size if _remote(stages[clients[0]]).add_up else 1
        jobs += [clients[i : i + step] for i in range(0, len(clients), step)]
    return sorted(jobs)
