"""Runs a TFF worker on this host until SIGTERM or Control-C.

    python -m tff_partial.runtime.worker --port=8000

The worker listens on all interfaces and runs any graph for anyone who can reach the port:
docs/runtimes.md says how to keep it to a tunnel or a private network.
"""

from __future__ import annotations

import argparse
import contextlib
import signal
import socket
from collections.abc import Sequence

from tff_partial.cli import command_line
from tff_partial.runtime.workers import process


class _Stopped(Exception):
    """SIGTERM or SIGINT arrived."""


def main(arguments: Sequence[str]) -> int:
    """Run the worker that the arguments ask for; return the exit code."""
    try:
        flags = _parse(arguments)
    except ValueError as error:
        return command_line.fail(error, code=2)
    signal.signal(signal.SIGTERM, _stop)
    signal.signal(signal.SIGINT, _stop)
    try:
        return _serve(flags)
    except _Stopped:
        return 0
    except RuntimeError as error:
        return command_line.fail(error)


def _parse(arguments: Sequence[str]) -> argparse.Namespace:
    parser = command_line.Parser("runtime.worker", __doc__)
    parser.add_argument("--port", type=_port, required=True, help="Port to listen on.")
    parser.add_argument(
        "--max_concurrent_computation_calls",
        type=int,
        default=-1,
        metavar="N",
        help="Clients trained at the same time; no limit by default.",
    )
    flags = parser.read(arguments)
    if _is_taken(flags.port):
        raise ValueError(f"port must be free. Received: --port={flags.port}, which is in use")
    return flags


def _port(text: str) -> int:
    if not text.isascii() or not text.isdigit() or not 1 <= int(text) <= 65535:
        raise argparse.ArgumentTypeError(f"must be a port number from 1 to 65535, not {text!r}")
    return int(text)


def _is_taken(port: int) -> bool:
    """Return whether a port is in use: the binary would share it, and either get requests."""
    with contextlib.closing(socket.socket(socket.AF_INET)) as probe:
        # As every server does it: a connection of the last worker that still closes is no obstacle.
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind(("", port))
        except OSError:
            return True
    return False


def _serve(flags: argparse.Namespace) -> int:
    command = process.worker_command(flags.port, flags.max_concurrent_computation_calls)
    worker = process.WorkerProcess(command, flags.port, log_path="")
    try:
        print(f"worker ready on port {flags.port}", flush=True)
        code = worker.wait()
    finally:
        # A second signal must not interrupt the first one's work.
        signal.signal(signal.SIGTERM, signal.SIG_IGN)
        signal.signal(signal.SIGINT, signal.SIG_IGN)
        worker.stop()
    return command_line.fail(f"the TFF worker ended with exit code {code}")


def _stop(signum: int, frame: object) -> None:
    raise _Stopped
