"""TFF's C++ worker as a process that ends with the process that started it.

`local_cpp` and `python -m tff_partial.runtime.worker` use it. It imports no TensorFlow, so that a
worker's own command line answers at once.

How the worker ends:

* After `stop()`, at the normal exit of this process, or when the object is garbage-collected:
  SIGTERM, and SIGKILL after five seconds.
* When this process is killed, SIGKILL included: the kernel's parent-death signal. It is bound to
  the *thread* that forked, so a thread of its own starts the worker and then waits for it; a worker
  may therefore be started from a short-lived thread.
"""

import concurrent.futures
import importlib.util
import os
import signal
import subprocess
import sys
import tempfile
import threading
import time
import weakref
from collections.abc import Sequence
from typing import IO, Optional

from tff_partial.runtime.errors import WorkersLostError
from tff_partial.runtime.workers import contact
from tff_partial.system import children

START_TIMEOUT = 30.0
_STOP_TIMEOUT = 5.0
_TAIL_BYTES = 2000
_TAIL_LINES = 3


def binary_path() -> str:
    """Return the path of the worker inside the installed TFF package, without importing TFF."""
    spec = importlib.util.find_spec("tensorflow_federated")
    if spec is None or spec.origin is None:
        raise RuntimeError("tensorflow_federated is not installed")
    return os.path.join(os.path.dirname(spec.origin), "data", "worker_binary")


def worker_command(port: int, max_concurrent_computation_calls: int = -1) -> list[str]:
    """Return the command line of a worker, which always listens on all interfaces."""
    return [
        binary_path(),
        f"--port={port}",
        f"--max_concurrent_computation_calls={max_concurrent_computation_calls}",
    ]


class WorkerProcess:
    """A running worker that answers on `port`.

    Args:
      command: Program and arguments, see `worker_command`.
      port: The port on which the program is expected to answer gRPC.
      log_path: File to which its output is appended; a temporary file by default. `""` passes the
        output on to this process's stderr and keeps none of it.
      start_timeout: Seconds until it must answer.

    Raises:
      WorkersLostError: If it exits at once or does not answer in time, with the end of its log.
    """

    def __init__(
        self,
        command: Sequence[str],
        port: int,
        log_path: Optional[str] = None,
        start_timeout: float = START_TIMEOUT,
    ) -> None:
        self.port = port
        self._log = _open_log(log_path)
        self._process = _start(command, (sys.stderr if log_path == "" else self._log).fileno())
        self._finalizer = weakref.finalize(self, _end, self._process, self._log, os.getpid())
        try:
            self._wait_until_ready(start_timeout)
        except BaseException:
            self.stop()
            raise

    @property
    def pid(self) -> int:
        return self._process.pid

    def exit_status(self) -> str:
        """Return how it ended; a dying worker's connections close a moment before it has ended."""
        try:
            return f"ended with exit code {self._process.wait(timeout=2.0)}"
        except subprocess.TimeoutExpired:
            return "still running"

    def log_tail(self) -> str:
        """Return the last lines of the worker's output, as one line for an error message."""
        if self._log.closed:
            return "(closed)"
        size = os.fstat(self._log.fileno()).st_size
        # pread, because the worker shares the file's position.
        tail = os.pread(self._log.fileno(), _TAIL_BYTES, max(0, size - _TAIL_BYTES))
        lines = tail.decode(errors="replace").strip().splitlines()[-_TAIL_LINES:]
        return " | ".join(lines) or "(empty)"

    def wait(self) -> int:
        """Wait until the worker ends by itself or by `stop`; return its exit code."""
        return self._process.wait()

    def stop(self) -> None:
        """Stop the worker and close its log. A second call does nothing."""
        self._finalizer()

    def _wait_until_ready(self, timeout: float) -> None:
        deadline = time.monotonic() + timeout
        while time.monotonic() < deadline:
            if self._process.poll() is not None:
                raise self._start_error(self.exit_status())
            # A new channel each time: gRPC waits a second after a refusal.
            with contact.open_channel(f"localhost:{self.port}") as channel:
                if contact.answers(channel, timeout=1.0):
                    return
            time.sleep(0.05)
        raise self._start_error(f"did not answer on port {self.port} within {timeout:g} s")

    def _start_error(self, what: str) -> WorkersLostError:
        return WorkersLostError(f"the TFF worker {what}; end of its log: {self.log_tail()}")


def _open_log(log_path: Optional[str]) -> IO:
    if log_path:
        return open(log_path, "a+b")
    # Without a name in the file system nothing is left of it even after SIGKILL.
    return tempfile.TemporaryFile()


def _start(command: Sequence[str], output: int) -> subprocess.Popen:
    """Start the worker from a thread that lives exactly as long as the worker does."""
    started: concurrent.futures.Future[subprocess.Popen] = concurrent.futures.Future()

    def start_and_wait() -> None:
        try:
            process = subprocess.Popen(
                children.command(command, signal.SIGKILL),
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=output,
                # Control-C at the terminal is for this process, which then stops the worker.
                start_new_session=True,
            )
        except OSError as error:
            started.set_exception(WorkersLostError(f"the TFF worker could not be started: {error}"))
        else:
            started.set_result(process)
            process.wait()

    threading.Thread(target=start_and_wait, name="tff-worker", daemon=True).start()
    return started.result()


def _end(process: subprocess.Popen, log: IO, owner: int) -> None:
    if os.getpid() != owner:  # A fork of the owner exits: the worker is not its own.
        return
    if process.poll() is None:
        process.terminate()
        process.send_signal(signal.SIGCONT)  # A stopped process would not notice.
        try:
            process.wait(_STOP_TIMEOUT)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()
    log.close()
