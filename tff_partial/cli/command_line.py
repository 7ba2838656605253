"""How every command starts, reads its arguments, reports errors and ends."""

from __future__ import annotations

import argparse
import importlib
import os
import signal
import sys
from collections.abc import Sequence
from typing import Callable, NoReturn, Optional

from tff_partial.system import interrupts, temporary

_NOBODY_READS = 128 + signal.SIGPIPE


class Parser(argparse.ArgumentParser):
    """A parser whose errors are one line, with exit code 2.

    Args:
      command: The module that runs it, below `tff_partial`.
      description: What `--help` says first.
    """

    def __init__(self, command: str, description: Optional[str]) -> None:
        super().__init__(
            f"python -m tff_partial.{command}",
            description=description,
            allow_abbrev=False,
            formatter_class=argparse.RawDescriptionHelpFormatter,
        )

    def error(self, message: str) -> NoReturn:
        self.exit(fail(message, code=2))


def start(command: str, arguments: Optional[Sequence[str]] = None) -> NoReturn:
    """Run a command of this package; the arguments are those of the process by default."""
    interrupts.end_when_interrupted()  # before imports that take seconds
    temporary.use_own_folder()
    module = importlib.import_module(f"tff_partial.cli.{command}")
    run(module.main, sys.argv[1:] if arguments is None else arguments)


def run(main: Callable[[Sequence[str]], int], arguments: Sequence[str]) -> NoReturn:
    """End the process with what `main` returns; quietly if nobody reads its output any more."""
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


def fail(error: object, code: int = 1) -> int:
    """Print an error in one line, as a value may have several; return the exit code."""
    print(f"error: {' '.join(str(error).split())}", file=sys.stderr)
    return code
