"""Ray itself: one of our own on loopback, or a cluster that is there."""

from __future__ import annotations

import contextlib
import logging
import os
import secrets
import socket
from collections.abc import Iterator, Mapping
from typing import Optional

from tff_partial.runtime.errors import WorkersLostError
from tff_partial.runtime.ray.options import RayOptions, check_installed

# Ray resolves loopback addresses to others, so that nodes can find each other, unless this says
# that there are no others.
_ONE_NODE = "RAY_ENABLE_WINDOWS_OR_OSX_CLUSTER"
_LOOPBACK = "127.0.0.1"
# How long a contact with the head may take; so many without an answer mean that it is gone.
_CONTACT, _CONTACTS = 2.0, 3


class Cluster:
    """A connection to Ray.

    Attributes:
      is_own: Whether this process has started it, and ends it.
      dashboard: Address of its dashboard; empty without one.
    """

    def __init__(self, options: RayOptions) -> None:
        """Start or connect.

        Raises:
          ValueError: If Ray is not installed, or in use by this process already.
          WorkersLostError: If no cluster answers, or it refuses this process.
        """
        check_installed()
        import ray

        if ray.is_initialized():
            raise ValueError(
                "runtime='ray' starts or joins a Ray of its own, one in a process. "
                "Received: a Ray in use; call close() of its context, or ray.shutdown()"
            )
        self.is_own = not options.address
        info = _start(options) if self.is_own else _connect(options.address)
        self.dashboard = str(info.get("webui_url") or "")
        self._head = str(info["gcs_address"])

    def check(self) -> None:
        """Raise a WorkersLostError if the head no longer answers."""
        host, _, port = self._head.rpartition(":")
        for _ in range(_CONTACTS):
            with (
                contextlib.suppress(OSError),
                socket.create_connection((host.strip("[]"), int(port)), timeout=_CONTACT),
            ):
                return
        raise WorkersLostError(f"the head of the Ray cluster, {self._head}, does not answer")

    @property
    def kind(self) -> str:
        """What was started or joined."""
        return "started here, on loopback" if self.is_own else f"cluster at {self._head}"

    def store_bytes(self) -> int:
        """Return the size of the object store of this node, where clients' data are put."""
        import ray

        here = ray.get_runtime_context().get_node_id()
        nodes = (node for node in ray.nodes() if node["NodeID"] == here)
        return int(sum(node["Resources"].get("object_store_memory", 0) for node in nodes))

    def more_room(self) -> str:
        """Return how the object store becomes larger."""
        if self.is_own:
            return "RAY_DEFAULT_OBJECT_STORE_MEMORY_PROPORTION=0.6 gives it more of the memory"
        return "ray start --object-store-memory=BYTES gives it more"

    def close(self) -> None:
        """End our own Ray; disconnect from another one, which goes on."""
        import ray

        ray.shutdown()


def _start(options: RayOptions) -> Mapping[str, object]:
    import ray

    cpus = os.cpu_count() or 1
    if options.actors is not None:
        cpus = max(cpus, -int(-options.actors * options.cpus_per_actor // 1))
    with _on_loopback():
        return ray.init(
            address="local",
            num_cpus=cpus,
            include_dashboard=False,
            log_to_driver=False,
            logging_level=logging.ERROR,
        ).address_info


@contextlib.contextmanager
def _on_loopback() -> Iterator[None]:
    """Let Ray's processes listen on loopback only, for those with a token that nobody else has."""
    from ray._private import ray_constants

    token = None if "RAY_AUTH_TOKEN_PATH" in os.environ else secrets.token_hex(32)
    before = ray_constants.ENABLE_RAY_CLUSTER
    os.environ.setdefault("RAY_AUTH_TOKEN", token) if token else None
    ray_constants.ENABLE_RAY_CLUSTER = False
    os.environ[_ONE_NODE] = "0"
    try:
        yield
    finally:
        ray_constants.ENABLE_RAY_CLUSTER = before
        del os.environ[_ONE_NODE]


def _connect(address: str) -> Mapping[str, object]:
    import ray

    try:
        return ray.init(
            address=address, log_to_driver=False, logging_level=logging.ERROR
        ).address_info
    except (ConnectionError, RuntimeError, ValueError, ray.exceptions.RayError) as error:
        ray.shutdown()
        raise WorkersLostError(
            f"no Ray cluster could be joined at {address}: {_reason(error)}"
        ) from error


def _reason(error: Optional[BaseException]) -> str:
    lines = str(error).strip().splitlines()
    return lines[0] if lines else type(error).__name__
