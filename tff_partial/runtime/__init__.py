"""Where TFF computations run: in this process, in a C++ worker beside it, or on other hosts."""

from __future__ import annotations

import functools
from collections.abc import Sequence
from typing import TYPE_CHECKING, Optional, Protocol, runtime_checkable

from tff_partial.core import lazy
from tff_partial.core.lazy import tff
from tff_partial.runtime.errors import WorkersLostError
from tff_partial.runtime.ray.options import RayOptions

if TYPE_CHECKING:
    from tff_partial.core.types import Computation, Structure

NAMES = ("in_process", "ray", "local_cpp", "remote")


class Context(Protocol):
    """A TFF context; `close()` it when it is no longer needed."""

    def invoke(self, comp: Computation, arg: Structure) -> Structure: ...

    def close(self) -> None: ...


@runtime_checkable
class HasStatus(Protocol):
    """A context that can say which of its workers answer."""

    def status(self) -> str: ...


class SpreadContext(Context, Protocol):
    """A context whose clients run in other processes, perhaps on other hosts."""

    def place(self) -> str:
        """Return where clients run now, such as `8 actors on 2 nodes`."""

    def taken_part(self) -> dict[str, int]:
        """Return how many actors and nodes took part since this was last asked."""

    def notes(self, data_bytes: int) -> list[str]:
        """Return what a user should know before a run with so many bytes of clients' data."""


def check(
    name: str,
    workers: Sequence[str] = (),
    client_parallelism: Optional[int] = None,
    devices: Sequence[str] = (),
    ray: Optional[RayOptions] = None,
) -> None:
    """Raise a ValueError if the name is unknown or an option does not belong to it."""
    if name not in NAMES:
        raise ValueError(f"runtime must be one of {NAMES}. Received: runtime={name!r}")
    if bool(workers) != (name == "remote"):
        raise ValueError(
            "workers must be given with runtime='remote' and only there. "
            f"Received: runtime={name!r}, workers={list(workers)}"
        )
    if name == "remote":
        from tff_partial.runtime.workers import contact

        contact.check_addresses(workers)
    if client_parallelism is not None and (name != "in_process" or client_parallelism < 1):
        raise ValueError(
            "client_parallelism must be positive and given with runtime='in_process' only. "
            f"Received: runtime={name!r}, client_parallelism={client_parallelism}"
        )
    if devices and name != "in_process":
        raise ValueError(
            "devices must be given with runtime='in_process' only. "
            f"Received: runtime={name!r}, devices={list(devices)}"
        )
    if name == "ray":
        from tff_partial.runtime.ray import options

        options.check_installed()
    elif ray not in (None, RayOptions()):
        raise ValueError(
            "Ray's options must be given with runtime='ray' only. "
            f"Received: runtime={name!r}, {ray}"
        )


def configure(name: str, devices: Sequence[str] = ()) -> None:
    """Set what TensorFlow accepts only before its first operation; call it before loading data.

    Raises:
      ValueError: If there is no such device.
    """
    lazy.load()
    # TFF's own default context reports an error when Python ends before it was replaced.
    if _is_unset():
        tff.framework.set_default_context(_no_runtime())
    if name in ("in_process", "ray"):
        from tff_partial.runtime.in_process import context

        context.configure(["CPU:0"] if name == "ray" else devices)


@functools.cache
def _no_runtime() -> tff.framework.SyncContext:
    class NoRuntime(tff.framework.SyncContext):
        def invoke(self, comp: Computation, arg: Structure) -> Structure:
            raise RuntimeError("runtime.set_default must be called before a computation")

    return NoRuntime()


def _is_unset() -> bool:
    """Return whether TFF's default context is its own, or what `configure` puts in its place."""
    context = tff.framework.get_context_stack().current
    return type(context) is tff.framework.SyncExecutionContext or context is _no_runtime()


def set_default_if_unset() -> None:
    """Make TFF computations run in this process unless a runtime has been chosen."""
    if _is_unset():
        set_default()


def create(
    name: str = "in_process",
    workers: Sequence[str] = (),
    client_parallelism: Optional[int] = None,
    devices: Sequence[str] = (),
    ray: Optional[RayOptions] = None,
) -> Context:
    """Return a context of a runtime.

    Args:
      name: One of NAMES.
      workers: For `remote`: addresses, host:port each.
      client_parallelism: For `in_process`: the number of clients that train at the same time. By
        default one on each device, or on the CPU alone the number of cores.
      devices: For `in_process`: the devices on which clients train, such as `GPU:0`. By default all
        GPUs, or the CPU if there is none.
      ray: For `ray`: how Ray is used.

    Raises:
      ValueError: If the name is unknown or an option does not belong to it.
      WorkersLostError: If there is nobody who could train.
    """
    check(name, workers, client_parallelism, devices, ray)
    lazy.load()
    if name == "in_process":
        from tff_partial.runtime.in_process import context

        return context.InProcessContext(client_parallelism, devices)
    if name == "ray":
        from tff_partial.runtime.ray import context as ray_context

        return ray_context.RayContext(ray)
    if name == "local_cpp":
        from tff_partial.runtime.workers import local_cpp

        return local_cpp.create_context()
    from tff_partial.runtime.workers import remote

    return remote.create_context(workers)


def set_default(
    name: str = "in_process",
    workers: Sequence[str] = (),
    client_parallelism: Optional[int] = None,
    devices: Sequence[str] = (),
    ray: Optional[RayOptions] = None,
) -> Context:
    """Make all TFF computations run on a runtime from now on; return its context."""
    context = create(name, workers, client_parallelism, devices, ray)
    tff.framework.set_default_context(context)
    return context
