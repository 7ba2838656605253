"""How every command starts and ends."""

from __future__ import annotations

import importlib
import os
import signal
import sys
from collections.abc import Sequence
from typing import Callable, NoReturn

from tff_partial.system import interrupts, temporary

_NOBODY_READS = 128 + signal.SIGPIPE


def start(command: str) -> NoReturn:
    """Runs a command of this package with the arguments of the process."""
    interrupts.end_when_interrupted()  # before imports that take seconds
    temporary.use_own_folder()
    module = importlib.import_module(f"tff_partial.cli.{command}")
    run(module.main, sys.argv[1:])


def run(main: Callable[[Sequence[str]], int], arguments: Sequence[str]) -> NoReturn:
    """Ends the process with what `main` returns; quietly if nobody reads its output any more."""
    for stream in (sys.stdout, sys.stderr):
        if stream is not None:  # names of files need not be text
            stream.reconfigure(errors="backslashreplace")  # type: ignore[attr-defined]
    try:
        try:
            code = main(arguments)
        finally:
            if sys.stdout is not None:
                sys.stdout.flush()
    except BrokenPipeError:
        # Python flushes once more at the end, which must not fail again.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        code = _NOBODY_READS
    except KeyboardInterrupt:
        code = interrupts.INTERRUPTED
    sys.exit(code)
