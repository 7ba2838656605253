"""Stock TFF's C++ worker on this machine, managed.

TFF's own local runtime leaves its worker running when Python ends in any way but a clean
one, hands it this process's stdout (so that a pipe never ends), and waits for ever when
the worker dies. Here the worker writes to a log of its own, must answer within 30 s, ends
with this process however that ends (`worker_process.py`), and its death is an error.

    context = local_cpp.create_context()
    tff.framework.set_default_context(context)
    ...
    context.close()
"""

from typing import Any, Optional

import portpicker
import tensorflow_federated as tff

from tff_partial.runtime import worker_client, worker_process


class LocalCppContext(tff.framework.SyncContext):
    """Runs computations in `worker`, which it owns. Computations run one after another."""

    def __init__(self, worker: worker_process.WorkerProcess) -> None:
        self._worker = worker
        self._client = worker_client.WorkerClient(
            tff.backends.native.desugar_and_transform_to_native
        )
        channel = worker_process.open_channel(f"localhost:{worker.port}")
        self._client.connect(channel, worker.is_running)

    @property
    def worker_pid(self) -> int:
        return self._worker.pid

    def invoke(self, comp: Any, arg: Any) -> Any:
        """Runs `comp` on `arg`.

        Raises:
          RuntimeError: If the worker is gone; the message has the end of its log.
        """
        try:
            return self._client.invoke(comp, arg)
        except worker_client.WorkerLost as error:
            raise RuntimeError(
                f"the TFF worker is lost ({self._worker.exit_status()}; {error}). "
                f"End of its log:\n{self._worker.log_tail()}"
            ) from None

    def close(self) -> None:
        """Ends the worker. The context cannot be used afterwards."""
        self._client.disconnect()
        self._worker.stop()


def create_context(
    log_path: Optional[str] = None,
    max_concurrent_computation_calls: int = -1,
    *,
    start_timeout: float = worker_process.START_TIMEOUT,
) -> LocalCppContext:
    """Starts a worker and returns a context backed by it.

    Args:
      log_path: File to which the worker's output is appended; a temporary one by default.
      max_concurrent_computation_calls: How many clients the worker trains at a time, which
        bounds its memory; no limit when not positive.
      start_timeout: Seconds within which the worker must answer.

    Raises:
      RuntimeError: If the worker dies at the start or does not answer.
    """
    port = portpicker.pick_unused_port()
    command = worker_process.worker_command(port, max_concurrent_computation_calls)
    return LocalCppContext(
        worker_process.WorkerProcess(command, port, log_path, start_timeout=start_timeout)
    )
