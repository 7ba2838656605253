"""TensorFlow computations that are traced once and kept, where somebody keeps them.

Tracing what clients do takes most of a run's start. A `Store` that is installed when a process is
built keeps the result: `experiments.trace_cache` does so on disk, for runs that follow.
"""

from __future__ import annotations

import collections
import contextlib
import contextvars
import json
from collections.abc import Iterator
from typing import TYPE_CHECKING, Callable, Optional

from typing_extensions import Protocol

from tff_partial.core.lazy import tff
from tff_partial.core.types import Computation, PolymorphicComputation, Structure, TffType

if TYPE_CHECKING:
    from tff_partial.core.model import ModelSpec


class Store(Protocol):
    """Keeps texts by name, for one state of everything else that enters a graph."""

    def get(self, name: str) -> Optional[bytes]:
        """Return what was put under this name, None if nothing was."""

    def put(self, name: str, content: bytes) -> None:
        """Keep the content."""


_installed: contextvars.ContextVar[Optional[Store]] = contextvars.ContextVar("store", default=None)


@contextlib.contextmanager
def kept_in(store: Optional[Store]) -> Iterator[None]:
    """Keep what processes that are built in this block trace, even if they trace it later."""
    token = _installed.set(store)
    try:
        yield
    finally:
        _installed.reset(token)


def installed() -> Optional[Store]:
    """Return the store of the block around; to be asked when a process is built."""
    return _installed.get()


def installed_for(model: ModelSpec) -> Optional[Store]:
    """Return `installed()`; None for a model with frozen values: its graphs hold them."""
    return None if model.has_frozen else installed()


def computation(
    name: str, store: Optional[Store]
) -> Callable[[Callable[..., Structure]], PolymorphicComputation]:
    """Decorate as `tff.tensorflow.computation` does; take what is traced from the store.

    Args:
      name: What tells the computation from others that are built with the same settings.
      store: What `installed` returned when the process was built.
    """

    def decorate(fn: Callable[..., Structure]) -> PolymorphicComputation:
        from tensorflow_federated.python.core.impl.computation import polymorphic_computation

        polymorphic = tff.tensorflow.computation(fn)
        if store is None:
            return polymorphic

        def concrete(argument_type: TffType, unpack: Optional[bool]) -> Computation:
            key = f"{name}, unpack={unpack}: {argument_type}"
            kept = store.get(key)
            if kept is not None:
                return _unpacked(kept)
            traced = polymorphic.fn_for_argument_type(argument_type, unpack)
            packed = _packed(traced)
            if packed is not None:
                store.put(key, packed)
            return traced

        infer_type = polymorphic._infer_type_fn
        return polymorphic_computation.PolymorphicComputation(concrete, infer_type)

    return decorate


def _containers() -> dict[str, type]:
    """Return the containers that a computation's type may have; protocol buffers lose them."""
    learning = tff.learning
    known = (
        collections.OrderedDict,
        dict,
        list,
        tuple,
        learning.models.ModelWeights,
        learning.templates.ClientResult,
    )
    return {container.__name__: container for container in known}


def _packed(traced: Computation) -> Optional[bytes]:
    """Return a computation as bytes; None if its type has other containers."""
    known, names = _containers(), list[Optional[str]]()
    for struct in _structs(traced.type_signature):
        container = getattr(struct, "python_container", None)
        if container is not None and known.get(container.__name__) is not container:
            return None
        names.append(container and container.__name__)
    proto = tff.framework.serialize_computation(traced)
    return json.dumps(names).encode() + b"\n" + proto.SerializeToString(deterministic=True)


def _unpacked(content: bytes) -> Computation:
    from tensorflow_federated.proto.v0 import computation_pb2

    names, _, proto = content.partition(b"\n")
    plain = tff.framework.deserialize_computation(computation_pb2.Computation.FromString(proto))
    known = _containers()
    containers = iter([name and known[name] for name in json.loads(names)])
    return tff.framework.ConcreteComputation.with_type(
        plain, _with_containers(plain.type_signature, containers)
    )


def _structs(type_spec: TffType) -> Iterator[TffType]:
    """Yield the structs in a type, the outer ones first."""
    if isinstance(type_spec, tff.StructType):
        yield type_spec
    for child in type_spec.children():
        yield from _structs(child)


def _with_containers(type_spec: TffType, containers: Iterator[Optional[type]]) -> TffType:
    """Return a type with a container for each of its structs, in the order of `_structs`."""
    if isinstance(type_spec, tff.StructType):
        container = next(containers)
        elements = [
            (name, _with_containers(element, containers))
            for name, element in tff.structure.to_elements(type_spec)
        ]
        if container is None:
            return tff.StructType(elements)
        return tff.types.StructWithPythonType(elements, container)
    if isinstance(type_spec, tff.FunctionType):
        parameter, result = type_spec.parameter, type_spec.result
        return tff.FunctionType(
            parameter and _with_containers(parameter, containers),
            _with_containers(result, containers),
        )
    if isinstance(type_spec, tff.SequenceType):
        return tff.SequenceType(_with_containers(type_spec.element, containers))
    return type_spec
