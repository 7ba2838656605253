"""What an actor does: it traces what clients do once, and computes it for one client at a time."""

from __future__ import annotations

import collections
import hashlib
import importlib
import os
import pathlib
import socket
import time
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, Callable, Generic, NamedTuple, Optional, TypeVar, cast

from tff_partial.runtime.ray.messages import (
    Argument,
    Call,
    Failure,
    Introduction,
    Kept,
    Reference,
    Reply,
)

if TYPE_CHECKING:
    from tff_partial.core.types import Tensor
    from tff_partial.runtime.in_process.functions import TracedFunction
    from tff_partial.runtime.in_process.steps import LeafType
    from tff_partial.runtime.ray.wire import Packed

Get = Callable[[Reference], Any]
"""Returns the object of a reference."""

Value = TypeVar("Value")

# How many of each an actor remembers. The rest is fetched from the object store again, or traced.
PLANS, SHARED, DATA_SETS = 64, 2, 32


class Settings(NamedTuple):
    """How an actor is set up.

    Attributes:
      threads: Number of threads.
      uses_gpu: Whether it trains on a GPU; on the CPU otherwise.
      environment: Variables that TensorFlow reads when it is imported.
    """

    threads: int
    uses_gpu: bool
    environment: Mapping[str, str]


class _Stage(NamedTuple):
    """What a client does in a level; which of its captures clients share."""

    function: Optional[TracedFunction]
    capture_types: Sequence[LeafType]
    is_shared: Sequence[bool]
    output_types: Sequence[LeafType]


class ClientActor:
    """Computes what clients do. One call at a time; clients of a call run one after the other."""

    def __init__(self, settings: Settings, get: Optional[Get] = None) -> None:
        """Import TensorFlow and TFF.

        Args:
          settings: How the actor is set up.
          get: Returns the object of a reference; Ray's by default.
        """
        os.environ.update(settings.environment)
        if get is None:
            import ray

            get = ray.get
        self._get = get
        self._settings = settings
        self._device = _configure(settings)
        self._plans = _Remembered[list[_Stage]](PLANS)
        self._shared = _Remembered[list["Packed"]](SHARED)
        self._data = _Remembered["Tensor"](DATA_SETS)

    def introduce(self) -> Introduction:
        """Say where the actor is and what it runs on."""
        import ray

        node = ray.get_runtime_context().get_node_id()
        gpus = os.environ.get("CUDA_VISIBLE_DEVICES", "") if self._settings.uses_gpu else ""
        host, process = socket.gethostname(), os.getpid()
        return Introduction(node, host, process, self._device, gpus, versions())

    def run(self, call: Call) -> Reply:
        """Compute the results of some clients."""
        from tff_partial.runtime.ray import sums

        started = time.perf_counter()
        stage = self._plans.get(call.plan, self._trace)[call.level]
        shared = self._shared.get(call.shared, self._get)
        results: list[list[Packed]] = []
        failure = None
        of_round = [shared[position] for position in call.positions]
        for client, own in enumerate(call.clients):
            arguments = self._arguments(stage, of_round, own)
            try:
                packed = _compute(stage, arguments, self._device)
            except Exception as error:
                failure = _failure(client, error)
                break
            if call.add_up and results:
                sums.add(results[0], packed)
            else:
                results.append(sums.start(packed) if call.add_up else packed)
        return Reply(results, failure, time.perf_counter() - started)

    def _arguments(
        self, stage: _Stage, shared: Sequence[Argument], own: Sequence[Argument]
    ) -> list[Tensor]:
        of_round, of_client = iter(shared), iter(own)
        return [
            self._tensor(next(of_round if is_shared else of_client), type_spec)
            for type_spec, is_shared in zip(stage.capture_types, stage.is_shared)
        ]

    def _tensor(self, argument: Argument, type_spec: LeafType) -> Tensor:
        from tff_partial.runtime.ray import wire

        if isinstance(argument, Kept):
            return self._data.get(argument, lambda at: wire.unpack(self._get(at), type_spec))
        return wire.unpack(argument, type_spec)

    def _trace(self, reference: Reference) -> list[_Stage]:
        from tensorflow_federated.proto.v0 import computation_pb2
        from tensorflow_federated.python.core.impl.compiler import building_blocks

        from tff_partial.runtime.in_process import execution, functions, planner
        from tff_partial.runtime.in_process.steps import CLIENTS

        proto = computation_pb2.Computation.FromString(self._get(reference))
        with functions.trace_lock:
            block = building_blocks.ComputationBuildingBlock.from_proto(proto)
            plan = planner.make_plan(block)
            stages = execution.trace_clients(plan, {})
        execution.forget_graphs(plan)
        return [
            _Stage(
                cast("Optional[TracedFunction]", stage.function),
                [leaf.type for leaf in stage.captures],
                [leaf.region is not CLIENTS for leaf in stage.captures],
                [leaf.type for leaf in stage.outputs],
            )
            for stage in stages
        ]


def _compute(stage: _Stage, arguments: Sequence[Tensor], device: str) -> list[Packed]:
    from tff_partial.runtime.ray import wire

    outputs = stage.function(arguments, device) if stage.function else []
    return [wire.pack(value, type_spec) for value, type_spec in zip(outputs, stage.output_types)]


def _failure(client: int, error: Exception) -> Failure:
    """Describe an error; those of TensorFlow have a code and name operations in their text."""
    code = getattr(error, "error_code", None)
    text = getattr(error, "message", "") if code else f"{type(error).__name__}: {error}"
    return Failure(client, code, text)


class _Remembered(Generic[Value]):
    """Objects by name; the one that was not used for the longest time goes first."""

    def __init__(self, limit: int) -> None:
        self._limit = limit
        self._values: collections.OrderedDict[bytes, Value] = collections.OrderedDict()

    def get(self, kept: Kept, create: Callable[[Reference], Value]) -> Value:
        """Return what is remembered under a name, or make it."""
        if kept.name in self._values:
            self._values.move_to_end(kept.name)
        else:
            self._values[kept.name] = create(kept.reference)
            if len(self._values) > self._limit:
                self._values.popitem(last=False)
        return self._values[kept.name]


def _configure(settings: Settings) -> str:
    """Import TensorFlow and TFF; return the device to train on."""
    from tff_partial.core import lazy

    lazy.load()
    import tensorflow as tf

    from tff_partial.runtime.in_process import context, devices

    tf.config.threading.set_inter_op_parallelism_threads(settings.threads)
    context.configure_threads()
    context.configure_graphs()
    if settings.uses_gpu:
        return devices.choose()[0]
    tf.config.set_visible_devices([], "GPU")
    return devices.CPU


def versions() -> tuple[tuple[str, str], ...]:
    """Return what must be the same in the driver and in every actor: results depend on it."""
    names = ("tensorflow", "tensorflow_federated", "numpy")
    packages = tuple((name, str(importlib.import_module(name).__version__)) for name in names)
    return (*packages, ("tff_partial's runtime", _source()))


def _source() -> str:
    """Return a hash of the source that the driver and the actors share."""
    root = pathlib.Path(__file__).parent.parent
    digest = hashlib.sha256()
    for path in sorted((root / "in_process").glob("*.py")) + sorted((root / "ray").glob("*.py")):
        digest.update(path.read_bytes())
    return digest.hexdigest()[:12]
