"""TFF workers on other hosts: a cohort spread over them, and rounds that survive their loss.

With one worker a computation runs there as it is. With several, TFF's mergeable form cuts it at its
aggregation into pieces: each worker computes its share of the clients up to the aggregation, the
partial aggregates are merged, and the rest follows. TFF's own context for that calls its workers
one after another (its calls block the event loop); here every worker has a thread, so they do work
at the same time.

A piece is a pure function of its arguments. When its worker is lost, the piece is repeated on
another one, and whatever the lost worker had computed was never seen: nothing is lost and nothing
counts twice. A lost worker is contacted again at every invocation and gets its share as soon as it
answers.

With several workers, values placed at CLIENTS come back in the order in which the workers finish,
not in the order of the arguments: match them by a client id among the values. Results placed at
CLIENTS that need the local training make the clients train twice, once on each side of the
aggregation; so does TFF's own context.
"""

import asyncio
import concurrent.futures
import functools
import threading
from collections.abc import Callable, Sequence
from typing import Optional, TypeVar

import tensorflow_federated as tff
from absl import logging

from tff_partial.core.types import Computation, Structure, TffType
from tff_partial.runtime.errors import WorkersLostError
from tff_partial.runtime.workers import contact
from tff_partial.runtime.workers.client import WorkerClient, WorkerLost

Compiled = TypeVar("Compiled")
Piece = concurrent.futures.Future  # of a part of a computation that one worker runs

# How long an invocation waits for lost workers that may be back: enough for one that is,
# and no burden when a host does not even refuse the connection.
_GRACE = 0.25


class _Slot(tff.framework.AsyncContext):
    """What TFF's mergeable context takes for a worker: the i-th of those that are ready."""

    def __init__(self, run: Callable[[int, Computation, Structure], Piece], index: int):
        self._run = run
        self._index = index

    async def invoke(self, comp: Computation, arg: Structure) -> Structure:
        task = asyncio.current_task()
        if task is not None:
            # The mergeable context reports the first failure; asyncio would log the others.
            task.add_done_callback(lambda done: done.cancelled() or done.exception())
        return await asyncio.wrap_future(self._run(self._index, comp, arg))


class RemoteContext(tff.framework.SyncContext):
    """Runs computations on remote workers. Made by `create_context`."""

    def __init__(self, workers: Sequence[str], connect_timeout: float, max_retries: int) -> None:
        compiler_fn = _cached(tff.backends.native.desugar_and_transform_to_native)
        self._workers = [WorkerClient(address, connect_timeout, compiler_fn) for address in workers]
        self._max_retries = max_retries
        self._to_mergeable = _cached(_compile_to_mergeable)
        # One thread for each worker's piece, one for each contact with a lost worker.
        self._pool = concurrent.futures.ThreadPoolExecutor(2 * len(workers), "tff-remote")
        self._ready: list[WorkerClient] = []
        self._pieces: list[Piece] = []
        self._contexts: dict[int, tff.framework.SyncContext] = {}
        self._lock = threading.Lock()
        self._contacts: dict[WorkerClient, concurrent.futures.Future] = {}
        self._contact_lock = threading.Lock()
        self._contact_lost(None)
        self._require_one()

    def invoke(self, comp: Computation, arg: Structure) -> Structure:
        """Run `comp` on `arg`, whatever becomes of some of the workers meanwhile.

        Raises:
          WorkersLostError: If no worker is left, or a piece has met `max_retries` losses.
          ValueError: If there are several workers and `comp` has more than one aggregation.
        """
        with self._lock:
            self._contact_lost(_GRACE if self.ready_workers() else None)
            self._ready = self._require_one()
            self._pieces = []
            try:
                return self._invoke(comp, arg)
            except Exception:
                # Pieces of the failed computation must not run into the next one.
                concurrent.futures.wait(self._pieces)
                raise
            except BaseException:  # Control-C: nobody waits for the answers any more.
                for worker in self._workers:
                    worker.abort()
                raise

    def ready_workers(self) -> tuple[str, ...]:
        """Return the addresses of the workers that answered when they were last used."""
        return tuple(worker.address for worker in self._workers if worker.is_ready)

    def status(self) -> str:
        """Return in a line how many workers answer, and why the others do not."""
        answering = f"{len(self.ready_workers())} of {len(self._workers)} workers answer"
        lost = [f"{w.address}: {w.problem}" for w in self._workers if not w.is_ready]
        return "; ".join([answering, *lost])

    def close(self) -> None:
        """Disconnect from the workers, which keep running."""
        self._pool.shutdown(wait=True)
        for worker in self._workers:
            worker.disconnect()

    def _invoke(self, comp: Computation, arg: Structure) -> Structure:
        if len(self._workers) == 1 or not _takes_clients(comp):
            return self._submit(0, comp, arg).result()
        # Also when only one worker is left, so that a computation does not begin to fail
        # when another one comes back.
        size = len(self._ready)
        if size not in self._contexts:
            slots = [_Slot(self._submit, index) for index in range(size)]
            create = tff.backends.native.create_mergeable_comp_execution_context
            self._contexts[size] = create(slots)
        return self._contexts[size].invoke(self._to_mergeable(comp), arg)

    def _submit(self, index: int, comp: Computation, arg: Structure) -> Piece:
        piece = self._pool.submit(self._run, self._ready[index], comp, arg)
        self._pieces.append(piece)
        return piece

    def _run(self, worker: WorkerClient, comp: Computation, arg: Structure) -> Structure:
        """Run a piece on a worker, or on another one if that is lost."""
        for _ in range(self._max_retries + 1):
            if not worker.is_ready:
                if not self.ready_workers():
                    self._contact_lost(None)
                worker = min(self._require_one(), key=lambda worker: worker.is_busy)
            try:
                return worker.invoke(comp, arg)
            except WorkerLost as error:
                logging.warning("worker %s is lost: %s", worker.address, error)
        raise WorkersLostError(
            f"gave up after losing a worker {self._max_retries + 1} times in one computation: "
            f"{self._problems()}"
        )

    def _contact_lost(self, timeout: Optional[float]) -> None:
        """Try to reach lost workers in the background; wait at most `timeout` seconds for it."""
        lost = [worker for worker in self._workers if not worker.is_ready]
        with self._contact_lock:
            for worker in lost:
                if worker not in self._contacts or self._contacts[worker].done():
                    self._contacts[worker] = self._pool.submit(worker.connect)
        concurrent.futures.wait([self._contacts[worker] for worker in lost], timeout)

    def _require_one(self) -> list[WorkerClient]:
        ready = [worker for worker in self._workers if worker.is_ready]
        if not ready:
            raise WorkersLostError(f"no worker answers: {self._problems()}")
        return ready

    def _problems(self) -> str:
        return "; ".join(f"{w.address}: {w.problem}" for w in self._workers if w.problem)


def create_context(
    workers: Sequence[str], *, connect_timeout: float = 4.0, max_retries: int = 3
) -> RemoteContext:
    """Connect to workers and return a context that runs computations on them.

    Args:
      workers: Addresses, each `host:port`. `python -m tff_partial.runtime.worker` starts a worker.
      connect_timeout: Seconds within which a worker must answer a contact.
      max_retries: How often one piece of a computation is moved to another worker.

    Raises:
      ValueError: If an address is not `host:port`, or occurs twice, or there is none.
      WorkersLostError: If no worker answers. One that does not is used later if it does.
    """
    contact.check_addresses(workers)
    if connect_timeout <= 0:
        raise ValueError(f"connect_timeout must be positive. Received: {connect_timeout=}")
    if max_retries < 0:
        raise ValueError(f"max_retries must not be negative. Received: {max_retries=}")
    return RemoteContext(workers, connect_timeout, max_retries)


def _takes_clients(comp: Computation) -> bool:
    """Return whether the argument has a value for each client; else there is nothing to spread."""

    def is_per_client(type_spec: TffType) -> bool:
        is_federated = isinstance(type_spec, tff.FederatedType)
        return is_federated and type_spec.placement is tff.CLIENTS and not type_spec.all_equal

    parameter = comp.type_signature.parameter
    return parameter is not None and tff.types.contains(parameter, is_per_client)


def _compile_to_mergeable(comp: Computation) -> tff.framework.MergeableCompForm:
    try:
        return tff.backends.native.compile_to_mergeable_comp_form(comp)
    except ValueError as error:
        raise ValueError(
            "a computation with more than one aggregation cannot be spread over several "
            "workers: run it with one worker, or use the algorithm's one-step form"
        ) from error


def _cached(compiler_fn: Callable[[Computation], Compiled]) -> Callable[[Computation], Compiled]:
    """Compile once for all workers, and never in two threads: TensorFlow's tracing may crash."""
    lock = threading.Lock()
    cached_fn = functools.lru_cache(maxsize=64)(compiler_fn)

    def compile_fn(comp: Computation) -> Compiled:
        with lock:
            return cached_fn(comp)

    return compile_fn
