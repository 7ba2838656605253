"""Ray itself: one of our own on loopback, or a cluster that is there."""

from __future__ import annotations

import contextlib
import logging
import math
import os
import secrets
import sys
import tempfile
from collections.abc import Callable, Iterator, Mapping

from tff_partial.runtime.errors import WorkersLostError
from tff_partial.runtime.ray import probe
from tff_partial.runtime.ray.options import RayOptions, check_installed

# Ray resolves loopback addresses to others, so that nodes can find each other, unless this says
# that there are no others.
_ONE_NODE = "RAY_ENABLE_WINDOWS_OR_OSX_CLUSTER"
_CONTACTS = 3  # without an answer: the head is gone


class Cluster:
    """A connection to Ray.

    Attributes:
      is_own: Whether this process has started it, and ends it.
      is_lost: Whether its head was found to be gone; asking Ray for anything would then wait.
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
        self.is_own, self.is_lost = not options.address, False
        info = _start(options) if self.is_own else _connect(options.address)
        self.dashboard = str(info.get("webui_url") or "")
        self._head = str(info["gcs_address"])

    def check(self) -> None:
        """Raise a WorkersLostError if the head no longer answers."""
        for _ in range(_CONTACTS):
            if probe.answers(self._head):
                return
        self.is_lost = True
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

        with _quiet():
            ray.shutdown()


def _start(options: RayOptions) -> Mapping[str, object]:
    import ray

    cpus = os.cpu_count() or 1
    if options.actors is not None:
        cpus = max(cpus, math.ceil(options.actors * options.cpus_per_actor))
    with _on_loopback(), _quiet():
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

    if "RAY_AUTH_TOKEN_PATH" not in os.environ:
        os.environ.setdefault("RAY_AUTH_TOKEN", secrets.token_hex(32))
    before, variable = ray_constants.ENABLE_RAY_CLUSTER, os.environ.get(_ONE_NODE)
    ray_constants.ENABLE_RAY_CLUSTER = False
    os.environ[_ONE_NODE] = "0"
    try:
        yield
    finally:
        ray_constants.ENABLE_RAY_CLUSTER = before
        del os.environ[_ONE_NODE]
        if variable is not None:
            os.environ[_ONE_NODE] = variable


def _connect(address: str) -> Mapping[str, object]:
    import ray
    from ray._private import ray_constants, services

    ray_constants.NUM_REDIS_GET_RETRIES = _CONTACTS  # it tries for 20 s, even with a wrong token
    with _quiet() as written:
        try:
            found = services.canonicalize_bootstrap_address_or_die(address)
            problem = probe.problem(found)
            if not problem:
                return ray.init(
                    address=address, log_to_driver=False, logging_level=logging.ERROR
                ).address_info
        except (OSError, RuntimeError, ValueError, ray.exceptions.RayError) as error:
            ray.shutdown()
            problem = _reason(error, written())
    raise WorkersLostError(f"no Ray cluster could be joined at {address}: {problem}")


def _reason(error: BaseException, written: str) -> str:
    """Return in one line why Ray refused, from its error and what it has written meanwhile."""
    refused = type(error).__name__ == "AuthenticationError" or "InvalidAuthToken" in written
    if refused:
        return (
            "it asks for a token, and this one is missing or wrong "
            "(RAY_AUTH_MODE=token and RAY_AUTH_TOKEN or RAY_AUTH_TOKEN_PATH)"
        )
    return (str(error).strip() or type(error).__name__).splitlines()[0]


@contextlib.contextmanager
def _quiet() -> Iterator[Callable[[], str]]:
    """Keep what Ray's libraries write to stderr; yield what returns it."""
    sys.stderr.flush()
    with tempfile.TemporaryFile() as file:
        before = os.dup(2)
        os.dup2(file.fileno(), 2)
        try:
            yield lambda: os.pread(file.fileno(), 2**20, 0).decode(errors="replace")
        finally:
            os.dup2(before, 2)
            os.close(before)
