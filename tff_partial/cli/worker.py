"""Runs a TFF worker on this host until SIGTERM or Control-C.

    python -m tff_partial.runtime.worker --port=8000

The worker listens on all interfaces and runs any graph for anyone who can reach the
port: docs/remote.md says how to keep it to a tunnel or a private network.
"""

import argparse
import contextlib
import signal
import socket
import sys
from collections.abc import Sequence
from typing import NoReturn, Optional

from tff_partial.runtime.workers import process


class _OneLineParser(argparse.ArgumentParser):
    def error(self, message: str) -> NoReturn:
        self.exit(2, f"error: {message}\n")


class _Stopped(Exception):
    """SIGTERM or SIGINT arrived."""


def _port(text: str) -> int:
    if not text.isascii() or not text.isdigit() or not 1 <= int(text) <= 65535:
        raise argparse.ArgumentTypeError(
            f"expected a port number from 1 to 65535. Received: {text!r}"
        )
    return int(text)


def _parse(argv: Optional[Sequence[str]]) -> argparse.Namespace:
    parser = _OneLineParser(
        prog="python -m tff_partial.runtime.worker",
        description="Runs a TFF worker until SIGTERM or Control-C. Anyone who can reach the "
        "port can run graphs on this host: see docs/remote.md.",
    )
    parser.add_argument("--port", type=_port, required=True, help="port to listen on")
    parser.add_argument(
        "--max_concurrent_computation_calls",
        type=int,
        default=-1,
        metavar="N",
        help="clients trained at a time; no limit by default",
    )
    args = parser.parse_args(argv)
    if _is_taken(args.port):
        parser.error(f"expected a free port. Received: --port={args.port}, which is in use")
    return args


def _is_taken(port: int) -> bool:
    """The binary would share a port with whoever has it, and requests would go to either."""
    with contextlib.closing(socket.socket(socket.AF_INET)) as probe:
        # As every server does it: a connection of the last worker still closing is no obstacle.
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind(("", port))
        except OSError:
            return True
    return False


def _stop(signum: int, frame: object) -> None:
    raise _Stopped


def _serve(args: argparse.Namespace) -> int:
    command = process.worker_command(args.port, args.max_concurrent_computation_calls)
    worker = process.WorkerProcess(command, args.port, log_path="")
    try:
        print(f"worker ready on port {args.port}", flush=True)
        code = worker.wait()
    finally:
        # A second signal must not interrupt the first one's work.
        signal.signal(signal.SIGTERM, signal.SIG_IGN)
        signal.signal(signal.SIGINT, signal.SIG_IGN)
        worker.stop()
    print(f"error: the TFF worker ended with exit code {code}", file=sys.stderr)
    return 1


def main(argv: Optional[Sequence[str]] = None) -> int:
    args = _parse(argv)
    signal.signal(signal.SIGTERM, _stop)
    signal.signal(signal.SIGINT, _stop)
    try:
        return _serve(args)
    except _Stopped:
        return 0
    except RuntimeError as error:
        print(f"error: {error}", file=sys.stderr)
        return 1
