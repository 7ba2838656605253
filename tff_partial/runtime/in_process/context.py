"""TFF in this process: its compiler, and this process's TensorFlow instead of a worker.

A computation is compiled by TFF when it is first called, evaluated down to pieces of TensorFlow
(`planner`, `plan`), and each piece traced as one function (`graphs`, `functions`). From then on a
round is one call for the server's part and one call for each client (`execution`, `folds`).
"""

import contextlib
import gc
import os
import threading
import weakref
from collections.abc import Iterator
from typing import Any, Optional

import tensorflow as tf
import tensorflow_federated as tff
from tensorflow_federated.python.core.impl.executors import cardinalities_utils

from tff_partial.runtime.in_process import devices, planner, values
from tff_partial.runtime.in_process.execution import Execution, Workers
from tff_partial.runtime.in_process.functions import trace_lock


def configure_threads() -> bool:
    """Gives every TensorFlow op one thread, so that clients use the cores instead.

    TensorFlow accepts the setting only before its first op.

    Returns:
      Whether the setting is in force.
    """
    try:
        tf.config.threading.set_intra_op_parallelism_threads(1)
    except RuntimeError:
        return tf.config.threading.get_intra_op_parallelism_threads() == 1
    return True


class InProcessContext(tff.framework.SyncContext):
    """Runs TFF computations with the TensorFlow of this process.

    Arguments and results are passed by reference, without a limit on their size. Clients run in
    parallel and their results are aggregated in order, so nothing depends on the parallelism.
    Secure aggregation is computed as TFF's test runtime does it: the same numbers, nothing hidden.

    What has been compiled for a computation is kept as long as the computation itself.
    """

    def __init__(
        self,
        client_parallelism: Optional[int] = None,
        device: Optional[str] = None,
        default_num_clients: int = 0,
    ):
        """Creates the context.

        On the CPU this sets TensorFlow's intra-op threads to one (`configure_threads`). If
        TensorFlow has run an op before, its threads stay as they are: results are the same, but the
        clients' ops compete for the cores.

        Args:
          client_parallelism: how many clients run at a time. Default: the number of cores, 1 on a
            GPU.
          device: such as `/device:GPU:0`. Default: the first GPU, the CPU if there is none.
          default_num_clients: the number of clients where the arguments do not tell.

        Raises:
          ValueError: a number is out of range, or the device is not there.
        """
        if client_parallelism is not None and client_parallelism < 1:
            raise ValueError(
                "client_parallelism must be at least 1. "
                f"Received: client_parallelism={client_parallelism}"
            )
        device = devices.choose(device, devices.visible_gpus())
        if client_parallelism is None:
            client_parallelism = 1 if devices.is_gpu(device) else available_cores()
        if not devices.is_gpu(device):
            configure_threads()
        # Grappler's arithmetic rewriting adds up in an order that depends on the names of nodes, so
        # that two builds of one process would differ in the last bits.
        tf.config.optimizer.set_experimental_options({"arithmetic_optimization": False})
        self._workers = Workers(client_parallelism, device)
        self._default_num_clients = default_num_clients
        self._compiled: dict[int, tuple[Any, _Compiled]] = {}
        self._lock = threading.Lock()

    @property
    def client_parallelism(self) -> int:
        """How many clients run at a time."""
        return self._workers.threads

    @property
    def device(self) -> str:
        """Where functions run."""
        return self._workers.device

    def invoke(self, comp: Any, arg: Any) -> Any:
        """Runs a computation; TFF calls this when a computation is called."""
        compiled = self._get(comp)
        with _older_objects_ignored():
            return compiled.run(arg, self._default_num_clients)

    def close(self) -> None:
        """Ends the threads and frees what has been compiled. The context is of no use then."""
        with self._lock:
            self._compiled.clear()
        self._workers.close()

    def _get(self, comp: Any) -> "_Compiled":
        # By identity: hashing a computation serialises all of it.
        key = id(comp)
        with self._lock:
            found = self._compiled.get(key)
        if found is not None and found[0]() is comp:
            return found[1]
        compiled = _Compiled(comp, self._workers)
        compiled_by_id = self._compiled
        reference = weakref.ref(comp, lambda _: compiled_by_id.pop(key, None))
        with self._lock:
            compiled_by_id[key] = (reference, compiled)
        return compiled


@contextlib.contextmanager
def _older_objects_ignored() -> Iterator[None]:
    """Keeps Python's garbage collector away from all objects that are there now.

    They are TensorFlow's million and a few for each client; looking through them time and again
    would cost more the more clients there are. Unless somebody does the same already.
    """
    mine = gc.get_freeze_count() == 0
    if mine:
        gc.freeze()
    try:
        yield
    finally:
        if mine:
            gc.unfreeze()


def available_cores() -> int:
    """The cores that this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


class _Compiled:
    """A computation ready to run. It does not hold the computation, which could never go then."""

    def __init__(self, comp: Any, workers: Workers):
        if not isinstance(comp.type_signature, tff.FunctionType):
            raise ValueError(f"expected a function. Received: {comp.type_signature}")
        # The compiler loses the Python containers of the type.
        self._parameter_type = comp.type_signature.parameter
        self._release = values.Release(comp.type_signature.result)
        self._ingest = values.Ingest(self._parameter_type)
        with trace_lock:
            plan = planner.make_plan(compile_to_native(comp).to_building_block())
            self._execution = Execution(plan, workers)

    def run(self, arg: Any, default_num_clients: int) -> Any:
        arguments = []
        clients = default_num_clients
        if self._parameter_type is not None:
            arguments = self._ingest(arg)
            found = cardinalities_utils.infer_cardinalities(arg, self._parameter_type)
            clients = found.get(tff.CLIENTS, clients)
        leaves = self._execution.run(arguments, clients)
        return self._release(iter(leaves), clients)


def compile_to_native(comp: Any) -> Any:
    """TFF's native form, secure aggregation replaced by what TFF's tests use for it."""
    # A no-op without such aggregation, except for the price of a traversal.
    comp = tff.backends.test.replace_secure_intrinsics_with_bodies(comp)
    block, _ = tff.tensorflow.replace_intrinsics_with_bodies(comp.to_building_block())
    desugared = tff.framework.ConcreteComputation(
        computation_proto=block.proto, context_stack=tff.framework.get_context_stack()
    )
    return tff.backends.native.transform_to_native_form(
        desugared, grappler_config=_compiler_config()
    )


def _compiler_config() -> Any:
    """What TFF's compiler lets Grappler do, but for fused ops: TensorFlow makes them when it runs.

    Their definition refuses batch norm of channels that 4 does not divide, on import.
    """
    config = tf.compat.v1.ConfigProto()
    options = config.graph_options.rewrite_options
    options.memory_optimization = options.AGGRESSIVE
    options.constant_folding = options.AGGRESSIVE
    options.arithmetic_optimization = options.OFF
    options.loop_optimization = options.AGGRESSIVE
    options.function_optimization = options.AGGRESSIVE
    options.remapping = options.OFF
    return config
