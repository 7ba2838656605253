"""How every command starts, reads its arguments, reports errors and ends."""

from __future__ import annotations

import argparse
import importlib
import os
import re
import signal
import sys
from collections.abc import Sequence
from typing import Callable, NoReturn, Optional, Protocol, TypeVar, Union

from tff_partial.core import checks
from tff_partial.core.lazy import tf
from tff_partial.system import interrupts, temporary

_NOBODY_READS = 128 + signal.SIGPIPE


class HasFolder(Protocol):
    """A run that has been prepared."""

    @property
    def folder(self) -> str:
        """Where its results go."""


Prepared = TypeVar("Prepared", bound=HasFolder)


class Parser(argparse.ArgumentParser):
    """A parser of a command's flags that raises a ValueError, in one line, if they are wrong."""

    def __init__(self, command: str, description: Optional[str]) -> None:
        super().__init__(
            f"python -m tff_partial.{command}",
            description=description,
            allow_abbrev=False,
            formatter_class=argparse.RawDescriptionHelpFormatter,
        )

    def read(self, arguments: Sequence[str]) -> argparse.Namespace:
        """Return the flags."""
        self._given = " ".join(arguments)
        return self.parse_args(arguments)

    def error(self, message: str) -> NoReturn:
        known = [name for action in self._actions for name in action.option_strings]
        unknown = re.fullmatch("unrecognized arguments: (-[^ =]+).*", message)
        meant = checks.did_you_mean(unknown[1], known) if unknown else ""
        raise ValueError(f"flags must be as in --help: {message}. Received: {self._given}{meant}")


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


def train(
    prepare: Callable[[], Union[int, Prepared]], train_prepared: Callable[[Prepared], int]
) -> int:
    """Run a command that trains, and report errors in a line.

    Args:
      prepare: Checks the input; returns what is to be run, or the exit code if there is nothing.
      train_prepared: Runs it and returns the exit code.

    Returns:
      The exit code: 2 if the input is wrong, 1 if something failed, 128 + n after signal n.
    """
    from absl import flags

    from tff_partial.experiments.checkpoints import CheckpointError
    from tff_partial.experiments.run import STOPPED

    try:
        prepared = prepare()
    except (flags.Error, ValueError) as error:
        return fail(error, code=2)
    except BrokenPipeError:
        raise  # nobody reads the output: `run`
    except OSError as error:
        return fail(error)
    except KeyboardInterrupt:
        return interrupts.INTERRUPTED
    if isinstance(prepared, int):
        return prepared
    try:
        return train_prepared(prepared)
    except STOPPED as error:
        return explain(error, prepared.folder)
    except CheckpointError as error:
        return fail(error, code=2)
    except BrokenPipeError:
        raise
    except faults() as error:
        # A full disk, a folder that was removed: files are complete, and there may be no room for
        # others.
        return fail(f"{line_of(error)}; {_again(prepared.folder)}")
    except KeyboardInterrupt:
        say("stopped at once; what follows the last checkpoint is repeated by the next start")
        return interrupts.INTERRUPTED


def faults() -> tuple[type[Exception], ...]:
    """Return what the machine may raise: errors of reading and writing, in TensorFlow too."""
    return (
        OSError,
        tf.errors.DataLossError,
        tf.errors.FailedPreconditionError,
        tf.errors.NotFoundError,
        tf.errors.PermissionDeniedError,
        tf.errors.ResourceExhaustedError,
        tf.errors.UnavailableError,
    )


def line_of(error: BaseException) -> str:
    """Return the first line of an error, without the names of TensorFlow's operations."""
    text = re.sub(r"\{\{[^}]*\}\}|\[Op:.*", "", str(error)).strip() or type(error).__name__
    return text.splitlines()[0]


def explain(stopped: Exception, folder: str, changes: str = "") -> int:
    """Say why a run stopped before its last round; return the exit code.

    `stopped` is one of `experiments.run.STOPPED`; `changes` are flags that may have to change
    before lost workers are found.
    """
    from tff_partial.experiments.divergence import DivergedError
    from tff_partial.experiments.loop import Interrupted

    if isinstance(stopped, Interrupted):
        say(f"{stopped}; {_again(folder)}")
        return 128 + stopped.signal_number
    if isinstance(stopped, DivergedError):
        kept = f"; {folder} keeps the round before" if stopped.round_num > 1 else ""
        return fail(f"{stopped}{kept}")
    return fail(f"{stopped}; {_again(folder + changes)}")


def _again(folder: str) -> str:
    return f"start again with --output_dir={folder} to resume"


def fail(error: object, code: int = 1) -> int:
    """Print an error in one line, as a value may have several; return the exit code."""
    say(f"error: {' '.join(str(error).split())}")
    return code


def say(line: str) -> None:
    """Print a line for the user, apart from results."""
    print(line, file=sys.stderr)
