"""The client's side of one TFF worker: calls that cannot hang, executors that do not pile up.

Stock TFF retries a call to a dead worker for ever, waits for ever for the answer of a
host that vanished, and leaves an executor with its graphs in the worker for every number
of clients it has seen. `local_cpp.py` and `remote.py` share what is here instead.
"""

import collections
import threading
from collections.abc import Callable
from typing import Any, Optional

import grpc
import tensorflow_federated as tff
from tensorflow_federated.proto.v0 import executor_pb2, executor_pb2_grpc

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


class WatchedStub(tff.framework.RemoteExecutorStub):
    """A remote executor's calls that raise `WorkerLost` instead of waiting for ever.

    Args:
      channel: The connection to the worker.
      is_alive: Asked every few seconds while a call is under way.
    """

    def __init__(self, channel: grpc.Channel, is_alive: Callable[[], bool]) -> None:
        self._rpcs = executor_pb2_grpc.ExecutorGroupStub(channel)
        self._is_alive = is_alive
        self._lost = ""

    def get_executor(self, request: Any) -> Any:
        return self._call(self._rpcs.GetExecutor, request)

    def create_value(self, request: Any) -> Any:
        return self._call(self._rpcs.CreateValue, request)

    def create_struct(self, request: Any) -> Any:
        return self._call(self._rpcs.CreateStruct, request)

    def create_call(self, request: Any) -> Any:
        return self._call(self._rpcs.CreateCall, request)

    def create_selection(self, request: Any) -> Any:
        return self._call(self._rpcs.CreateSelection, request)

    def compute(self, request: Any) -> Any:
        return self._call(self._rpcs.Compute, request)

    def dispose(self, request: Any) -> Any:
        return self._release(self._rpcs.Dispose, request, executor_pb2.DisposeResponse())

    def dispose_executor(self, request: Any) -> Any:
        response = executor_pb2.DisposeExecutorResponse()
        return self._release(self._rpcs.DisposeExecutor, request, response)

    def _call(self, rpc: Any, request: Any) -> Any:
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

    def _watch(self, call: Any) -> Any:
        while True:
            try:
                return call.result(timeout=_WATCH_INTERVAL)
            except grpc.FutureTimeoutError:
                if not self._is_alive():
                    call.cancel()
                    self._lost = _SILENT
                    raise WorkerLost(_SILENT) from None

    def _release(self, rpc: Any, request: Any, response: Any) -> Any:
        """A worker that is gone has released everything already.

        One that hangs is asked once: there may be hundreds of values to release.
        """
        if self._lost:
            return response
        try:
            return rpc(request, timeout=_WATCH_INTERVAL)
        except ValueError:
            return response
        except grpc.RpcError as error:
            if error.code() is grpc.StatusCode.DEADLINE_EXCEEDED and not self._is_alive():
                self._lost = _SILENT
            return response


def _is_lost(error: Any) -> bool:
    code, details = error.code(), error.details() or ""
    # Other failed preconditions come from the user's graph; stock TFF repeats those for ever.
    forgotten = code is grpc.StatusCode.FAILED_PRECONDITION and _FORGOTTEN in details
    return forgotten or code is grpc.StatusCode.UNAVAILABLE


class _BoundedExecutorFactory(tff.framework.ExecutorFactory):
    """Keeps the executors of the last few numbers of clients and closes older ones."""

    def __init__(self, get_stub: Callable[[], WatchedStub]) -> None:
        self._get_stub = get_stub
        self._executors: collections.OrderedDict = collections.OrderedDict()

    def create_executor(self, cardinalities: Any) -> Any:
        num_clients = cardinalities.get(tff.CLIENTS) or 0
        if num_clients not in self._executors:
            while len(self._executors) >= _MAX_EXECUTORS:
                self._executors.popitem(last=False)[1].close()
            executor = tff.framework.RemoteExecutor(self._get_stub())
            executor.set_cardinalities({tff.CLIENTS: num_clients})
            self._executors[num_clients] = executor
        self._executors.move_to_end(num_clients)
        return self._executors[num_clients]

    def clean_up_executor(self, cardinalities: Any) -> None:
        executor = self._executors.pop(cardinalities.get(tff.CLIENTS) or 0, None)
        if executor is not None:
            executor.close()

    def clear(self) -> None:
        while self._executors:
            self._executors.popitem()[1].close()


class WorkerClient:
    """Runs computations on one worker, one after another.

    Args:
      compiler_fn: From a `tff.Computation` to the form that the worker executes.
    """

    def __init__(self, compiler_fn: Callable[[Any], Any]) -> None:
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

    def connect(self, channel: grpc.Channel, is_alive: Callable[[], bool]) -> None:
        self.disconnect()
        self._channel, self._stub = channel, WatchedStub(channel, is_alive)

    def disconnect(self) -> None:
        """Forgets the worker's executors, which are gone or go with the connection."""
        with self._lock:
            self._factory.clear()
            if self._channel is not None:
                self._channel.close()
            self._channel = self._stub = None

    def abort(self) -> None:
        """Makes the call under way, if any, fail now."""
        if self._channel is not None:
            self._channel.close()

    def invoke(self, comp: Any, arg: Any) -> Any:
        """Runs `comp`. Raises `WorkerLost` when the worker went away meanwhile."""
        with self._lock:
            return self._context.invoke(comp, arg)

    def _connected_stub(self) -> WatchedStub:
        if self._stub is None:
            raise WorkerLost("not connected")
        return self._stub
