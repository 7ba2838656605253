"""Choose what Ctrl-C does: end the process at once, or raise a KeyboardInterrupt."""

from __future__ import annotations

import os
import signal

INTERRUPTED = 128 + signal.SIGINT
_ended_at_start = False


def end_when_interrupted() -> None:
    """Make Ctrl-C end this process at once, with exit code 130 and no traceback.

    For the start of a command, whose imports take seconds: some module would swallow a
    KeyboardInterrupt or turn it into another error. Does nothing where Ctrl-C is ignored, as in
    background jobs, or has a handler already.
    """
    global _ended_at_start
    if signal.getsignal(signal.SIGINT) is signal.default_int_handler:
        signal.signal(signal.SIGINT, _end)
        _ended_at_start = True


def end_again_when_interrupted() -> None:
    """Make Ctrl-C end the process at once again, if it did at the start.

    For what follows a run: its files are complete, and there are more imports.
    """
    if _ended_at_start:
        end_when_interrupted()


def raise_when_interrupted() -> None:
    """Make Ctrl-C a KeyboardInterrupt again, for code that has something to save or close."""
    if signal.getsignal(signal.SIGINT) is _end:
        signal.signal(signal.SIGINT, signal.default_int_handler)


def _end(*unused: object) -> None:
    os._exit(INTERRUPTED)
