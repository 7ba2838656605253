"""The context that runs TFF computations with the TensorFlow of this process."""

import contextlib
import gc
import os
import threading
import weakref
from collections.abc import Iterator, Sequence
from typing import Optional

import tensorflow as tf
import tensorflow_federated as tff
from tensorflow_federated.python.core.impl.executors import cardinalities_utils

from tff_partial.core.types import Computation, Structure
from tff_partial.runtime.in_process import compiler, values
from tff_partial.runtime.in_process.devices import CPU, choose, is_gpu
from tff_partial.runtime.in_process.execution import (
    Clients,
    ClientStage,
    Execution,
    ThreadedClients,
)
from tff_partial.runtime.in_process.functions import trace_lock
from tff_partial.runtime.in_process.parallel import ClientThreads


def configure(devices: Sequence[str] = ()) -> None:
    """Prepare TensorFlow for a context on these devices; raise a ValueError if one is not there."""
    if not any(map(is_gpu, choose(devices))):
        configure_threads()


def configure_threads() -> None:
    """Give every TensorFlow op one thread, so that clients use the cores instead.

    TensorFlow accepts the setting only before its first op. Afterwards its threads stay as they
    are: results are the same, but the clients' ops compete for the cores.
    """
    with contextlib.suppress(RuntimeError):
        tf.config.threading.set_intra_op_parallelism_threads(1)


def configure_graphs() -> None:
    """Make TensorFlow add up in the same order in every build of a process.

    Grappler's arithmetic rewriting adds up in an order that depends on the names of nodes, so that
    two builds would differ in the last bits.
    """
    tf.config.optimizer.set_experimental_options({"arithmetic_optimization": False})


class InProcessContext(tff.framework.SyncContext):
    """Runs TFF computations with the TensorFlow of this process.

    Arguments and results are passed by reference, without a limit on their size. Clients run in
    parallel and their results are aggregated in order, so results do not depend on the parallelism.
    Secure aggregation is computed as TFF's test runtime does it: the same numbers, nothing hidden.

    A compiled computation is kept as long as the computation itself.
    """

    def __init__(self, client_parallelism: Optional[int] = None, devices: Sequence[str] = ()):
        """Create the context; on the CPU, `configure_threads`.

        Args:
          client_parallelism: The number of clients that run at the same time, spread over the
            devices. Default: one on each device; on the CPU alone, the number of cores.
          devices: Such as `GPU:0`; the server's part and the sums are on the first. Default: all
            GPUs, or the CPU if there is none.

        Raises:
          ValueError: If a number is out of range or a device does not exist.
        """
        if client_parallelism is not None and client_parallelism < 1:
            raise ValueError(
                "client_parallelism must be at least 1. "
                f"Received: client_parallelism={client_parallelism}"
            )
        self.devices = choose(devices)
        if client_parallelism is None:
            client_parallelism = available_cores() if self.devices == [CPU] else len(self.devices)
        if not any(map(is_gpu, self.devices)):
            configure_threads()
        configure_graphs()
        self.client_parallelism = client_parallelism
        self._threads = ClientThreads(client_parallelism)
        self._clients: Clients = ThreadedClients(self._threads, self.devices)
        self._compiled: dict[int, tuple[weakref.ref[Computation], _Compiled]] = {}
        self._lock = threading.Lock()

    def invoke(self, comp: Computation, arg: Structure) -> Structure:
        """Run a computation; TFF calls this when a computation is called."""
        compiled = self._get(comp)
        with _full_collections.put_off():
            return compiled.run(comp, arg)

    def close(self) -> None:
        """Stop the threads and free compiled computations.

        The context cannot be used afterwards.
        """
        with self._lock:
            self._compiled.clear()
        self._threads.close()

    def _get(self, comp: Computation) -> "_Compiled":
        key = id(comp)  # hashing a computation would serialize all of it
        with self._lock:
            reference, compiled = self._compiled.get(key, (None, None))
        if reference is None or compiled is None or reference() is not comp:
            compiled = _Compiled(comp, self._clients, self.devices[0])
            by_id = self._compiled
            reference = weakref.ref(comp, lambda _: by_id.pop(key, None))
            with self._lock:
                by_id[key] = (reference, compiled)
        return compiled


class _FullCollections:
    """Python's garbage collections of all objects, which do not happen while computations run.

    Going time and again through TensorFlow's million objects and a few for each client would cost
    more the more clients there are. New objects are looked through as ever.
    """

    def __init__(self) -> None:
        self._lock, self._running = threading.Lock(), 0
        self._threshold = gc.get_threshold()

    @contextlib.contextmanager
    def put_off(self) -> Iterator[None]:
        """Put them off until the last of the computations that run at the same time has ended."""
        with self._lock:
            self._running += 1
            if self._running == 1:
                self._threshold = gc.get_threshold()
                gc.set_threshold(*self._threshold[:2], _NEVER)
        try:
            yield
        finally:
            with self._lock:
                self._running -= 1
                if not self._running:
                    gc.set_threshold(*self._threshold)


_NEVER = 2**31 - 1
_full_collections = _FullCollections()


def available_cores() -> int:
    """Return the number of cores that this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


class _Compiled:
    """A computation ready to run. It holds no reference to the computation, which it would keep."""

    def __init__(self, comp: Computation, clients: Clients, device: str):
        if not isinstance(comp.type_signature, tff.FunctionType):
            raise ValueError(f"expected a function. Received: {comp.type_signature}")
        # The compiler loses the Python containers of the type.
        self._parameter_type = comp.type_signature.parameter
        self._release = values.create_release(comp.type_signature.result)
        self._ingest = values.Ingest()
        first = comp.of_tier(0) if hasattr(comp, "of_tier") else comp
        with trace_lock:
            self._execution = Execution(compiler.compile_to_native(first), clients, device)
        self._stages = {0: self._execution.stages}

    def run(self, comp: Computation, arg: Structure) -> Structure:
        """Run with an argument of the computation that this was compiled from."""
        if self._parameter_type is None:
            arguments, clients = [], 0
        else:
            arguments = self._ingest.flatten(arg, self._parameter_type)
            cardinalities = cardinalities_utils.infer_cardinalities(arg, self._parameter_type)
            clients = cardinalities.get(tff.CLIENTS, 0)
        tiers = comp.tiers_of(arg) if hasattr(comp, "tiers_of") else [0] * clients
        stages = [self._stages_of(comp, tier) for tier in tiers]
        return self._release(iter(self._execution.run(arguments, stages)), clients)

    def _stages_of(self, comp: Computation, tier: int) -> Sequence[ClientStage]:
        """Return what clients of a tier do; trace it when the first of them comes."""
        if tier not in self._stages:
            with trace_lock:
                block = compiler.compile_to_native(comp.of_tier(tier))
                self._stages[tier] = self._execution.trace_like(block)
        return self._stages[tier]
