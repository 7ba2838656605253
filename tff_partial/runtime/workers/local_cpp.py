"""Stock TFF's C++ worker on this machine, managed.

**The worker listens on all interfaces, without authentication**: whoever reaches its port can run
TensorFlow graphs as you. The binary offers no other choice, so `create_context` warns if the host
has an address other than loopback. The runtime `in_process` opens no port.

TFF's own local runtime leaves its worker running when Python ends in any way but a clean one, hands
it this process's stdout (so that a pipe never ends), and waits for ever when the worker dies. Here
the worker writes to a log of its own, must answer within 30 s and ends with this process however
that ends (`process`). A worker that dies or hangs is an error.
"""

import ipaddress
import socket
from typing import Optional

import portpicker
import psutil
import tensorflow_federated as tff
from absl import logging

from tff_partial.core.types import Computation, Structure
from tff_partial.runtime.errors import WorkersLostError
from tff_partial.runtime.workers import client, process

# Seconds within which a worker must answer a contact during a computation.
_CONTACT_TIMEOUT = 4.0


class LocalCppContext(tff.framework.SyncContext):
    """Runs computations in `worker`, which it owns. Computations run one after another."""

    def __init__(self, worker: process.WorkerProcess) -> None:
        self._worker = worker
        compiler_fn = tff.backends.native.desugar_and_transform_to_native
        address = f"localhost:{worker.port}"
        self._client = client.WorkerClient(address, _CONTACT_TIMEOUT, compiler_fn)
        self._client.connect()

    @property
    def worker_pid(self) -> int:
        return self._worker.pid

    def invoke(self, comp: Computation, arg: Structure) -> Structure:
        """Run `comp` on `arg`.

        Raises:
          WorkersLostError: If the worker is gone or hangs; the message has the end of its log.
        """
        try:
            return self._client.invoke(comp, arg)
        except client.WorkerLost as error:
            raise WorkersLostError(
                f"the TFF worker, process {self._worker.pid}, is lost "
                f"({self._worker.exit_status()}; {error}); "
                f"end of its log: {self._worker.log_tail()}"
            ) from None

    def close(self) -> None:
        """Stop the worker. The context cannot be used afterwards."""
        self._client.disconnect()
        self._worker.stop()


def create_context(
    log_path: Optional[str] = None, max_concurrent_computation_calls: int = -1
) -> LocalCppContext:
    """Start a worker and return a context backed by it.

    Args:
      log_path: File to which the worker's output is appended; a temporary one by default.
      max_concurrent_computation_calls: How many clients the worker trains at a time, which
        bounds its memory; no limit when not positive.

    Raises:
      WorkersLostError: If the worker dies at the start or does not answer.
    """
    port = portpicker.pick_unused_port()
    command = process.worker_command(port, max_concurrent_computation_calls)
    exposed = _addresses_beside_loopback()
    if exposed:
        logging.warning(
            "anyone who reaches port %d of %s can run code as you while this runs; "
            "--runtime=in_process opens no port (docs/runtimes.md, Security)",
            port,
            ", ".join(exposed),
        )
    return LocalCppContext(process.WorkerProcess(command, port, log_path))


def _addresses_beside_loopback() -> list[str]:
    """Return the addresses of this host at which others may reach it."""
    stats = psutil.net_if_stats()
    addresses = [
        address.address.partition("%")[0]
        for name, addresses in psutil.net_if_addrs().items()
        for address in addresses
        if name in stats and stats[name].isup
        if address.family in (socket.AF_INET, socket.AF_INET6)
    ]
    return [text for text in addresses if not ipaddress.ip_address(text).is_loopback]
