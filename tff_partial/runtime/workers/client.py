"""The client of one TFF worker: calls that cannot hang, executors that do not pile up.

Stock TFF retries a call to a dead worker for ever, waits for ever for the answer of a host that
vanished, and leaves an executor with its graphs in the worker for every number of clients it has
seen. `local_cpp` and `remote` use what is here instead.
"""

import collections
import threading
from collections.abc import Callable, Mapping
from typing import Optional

import grpc
import tensorflow_federated as tff
from google.protobuf.message import Message
from tensorflow_federated.proto.v0 import executor_pb2, executor_pb2_grpc
from typing_extensions import TypeAlias

from tff_partial.core.types import Computation, Structure
from tff_partial.runtime.workers import contact

Compiler: TypeAlias = Callable[[Computation], Computation]
"""Compiles a computation to the form that a worker runs."""

Cardinalities: TypeAlias = Mapping["tff.framework.PlacementLiteral", int]

# One for the training cohort, one for evaluation, one for computations without clients.
# Each holds its own copy of the graphs.
_MAX_EXECUTORS = 3
# Seconds between two looks at a worker that has not answered a call yet. A call may
# rightly take as long as a round, so only the worker's disappearance ends it early.
_WATCH_INTERVAL = 5.0
# What the worker says when it was restarted and does not know our executor.
_FORGOTTEN = "No executor found for ID"
_SILENT = "it no longer answers"


class WorkerLost(Exception):
    """The worker is unreachable, died, or was restarted; the call may be repeated."""


def _watched(rpc: str) -> Callable[["WatchedStub", Message], Message]:
    return lambda self, request: self._call(getattr(self._rpcs, rpc), request)


def _released(rpc: str) -> Callable[["WatchedStub", Message], Message]:
    response = getattr(executor_pb2, f"{rpc}Response")
    return lambda self, request: self._release(getattr(self._rpcs, rpc), request) or response()


class WatchedStub(tff.framework.RemoteExecutorStub):
    """A remote executor's calls that raise `WorkerLost` instead of waiting for ever.

    `is_alive` is called every few seconds while a call is under way.
    """

    get_executor = _watched("GetExecutor")
    create_value = _watched("CreateValue")
    create_struct = _watched("CreateStruct")
    create_call = _watched("CreateCall")
    create_selection = _watched("CreateSelection")
    compute = _watched("Compute")
    dispose = _released("Dispose")
    dispose_executor = _released("DisposeExecutor")

    def __init__(self, channel: grpc.Channel, is_alive: Callable[[], bool]) -> None:
        self._rpcs = executor_pb2_grpc.ExecutorGroupStub(channel)
        self._is_alive = is_alive
        self._lost = ""

    def _call(self, rpc: grpc.UnaryUnaryMultiCallable, request: Message) -> Message:
        if self._lost:
            raise WorkerLost(self._lost)
        try:
            return self._watch(rpc.future(request))
        except grpc.RpcError as error:
            if not _is_lost(error):
                raise
            self._lost = " ".join((error.details() or _SILENT).split())
        except ValueError as error:  # What gRPC raises on a closed channel.
            self._lost = str(error)
        raise WorkerLost(self._lost)

    def _watch(self, call: grpc.Future) -> Message:
        while True:
            try:
                return call.result(timeout=_WATCH_INTERVAL)
            except grpc.FutureTimeoutError:
                if not self._is_alive():
                    call.cancel()
                    self._lost = _SILENT
                    raise WorkerLost(_SILENT) from None

    def _release(self, rpc: grpc.UnaryUnaryMultiCallable, request: Message) -> Optional[Message]:
        """Release a value; a worker that is gone has released everything already.

        One that hangs is asked once: there may be hundreds of values to release.
        """
        if self._lost:
            return None
        try:
            return rpc(request, timeout=_WATCH_INTERVAL)
        except ValueError:  # The channel is closed.
            return None
        except grpc.RpcError as error:
            if error.code() is grpc.StatusCode.DEADLINE_EXCEEDED and not self._is_alive():
                self._lost = _SILENT
            return None


def _is_lost(error: grpc.RpcError) -> bool:
    code, details = error.code(), error.details() or ""
    # Other failed preconditions come from the user's graph; stock TFF repeats those for ever.
    forgotten = code is grpc.StatusCode.FAILED_PRECONDITION and _FORGOTTEN in details
    return forgotten or code is grpc.StatusCode.UNAVAILABLE


class _BoundedExecutorFactory(tff.framework.ExecutorFactory):
    """Keeps the executors of the last few numbers of clients and closes older ones."""

    def __init__(self, get_stub: Callable[[], WatchedStub]) -> None:
        self._get_stub = get_stub
        self._executors: collections.OrderedDict[int, tff.framework.RemoteExecutor] = (
            collections.OrderedDict()
        )

    def create_executor(self, cardinalities: Cardinalities) -> tff.framework.RemoteExecutor:
        num_clients = cardinalities.get(tff.CLIENTS) or 0
        if num_clients not in self._executors:
            while len(self._executors) >= _MAX_EXECUTORS:
                self._executors.popitem(last=False)[1].close()
            executor = tff.framework.RemoteExecutor(self._get_stub())
            executor.set_cardinalities({tff.CLIENTS: num_clients})
            self._executors[num_clients] = executor
        self._executors.move_to_end(num_clients)
        return self._executors[num_clients]

    def clean_up_executor(self, cardinalities: Cardinalities) -> None:
        executor = self._executors.pop(cardinalities.get(tff.CLIENTS) or 0, None)
        if executor is not None:
            executor.close()

    def clear(self) -> None:
        while self._executors:
            self._executors.popitem()[1].close()


class WorkerClient:
    """Runs computations on the worker at an address, one after another.

    The worker must answer a contact within `timeout` seconds. `is_ready` tells whether it answered
    when it was last used, `problem` why it did not.
    """

    def __init__(self, address: str, timeout: float, compiler_fn: Compiler) -> None:
        self.address = address
        self.is_ready = False
        self.problem = ""
        self._timeout = timeout
        self._stub: Optional[WatchedStub] = None
        self._channel: Optional[grpc.Channel] = None
        self._factory = _BoundedExecutorFactory(self._connected_stub)
        self._context = tff.framework.SyncExecutionContext(
            self._factory,
            compiler_fn,
            transform_args=tff.tensorflow.transform_args,
            transform_result=tff.tensorflow.transform_result,
        )
        # Executors must not be closed under a computation that another thread runs.
        self._lock = threading.Lock()

    @property
    def is_busy(self) -> bool:
        return self._lock.locked()

    def connect(self) -> None:
        """Connect, or connect again; `is_ready` afterwards if the worker answers."""
        channel = contact.open_channel(self.address)
        if contact.answers(channel, self._timeout):
            self.disconnect()
            self._channel, self._stub = channel, WatchedStub(channel, self._is_alive)
            self.is_ready, self.problem = True, ""
        else:
            channel.close()
            self.problem = self.problem or "does not answer"

    def disconnect(self) -> None:
        """Forget the worker's executors, which are gone or go with the connection."""
        with self._lock:
            self.is_ready = False
            self._factory.clear()
            if self._channel is not None:
                self._channel.close()
            self._channel = self._stub = None

    def abort(self) -> None:
        """Make the call under way, if any, fail now."""
        if self._channel is not None:
            self._channel.close()

    def invoke(self, comp: Computation, arg: Structure) -> Structure:
        """Run `comp`; raise `WorkerLost` if the worker is gone or goes away meanwhile."""
        try:
            with self._lock:
                return self._context.invoke(comp, arg)
        except WorkerLost as error:
            self.is_ready, self.problem = False, str(error)
            raise

    def _is_alive(self) -> bool:
        return contact.is_alive(self.address, self._timeout)

    def _connected_stub(self) -> WatchedStub:
        if self._stub is None:
            raise WorkerLost("not connected")
        return self._stub
