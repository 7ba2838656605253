"""What Ctrl-C does: end the process at once, or raise a KeyboardInterrupt."""

from __future__ import annotations

import os
import signal
from typing import Any

INTERRUPTED = 128 + signal.SIGINT
_ended_at_start = False


def end_when_interrupted() -> None:
    """Makes Ctrl-C end this process at once, with exit code 130 and no traceback.

    For the start of a command, whose imports take seconds: a KeyboardInterrupt there is swallowed
    by some module or turned into another error. Nothing is done where Ctrl-C is ignored, as in
    jobs in the background, or has a handler already.
    """
    global _ended_at_start
    if signal.getsignal(signal.SIGINT) is signal.default_int_handler:
        signal.signal(signal.SIGINT, _end)
        _ended_at_start = True


def end_again_when_interrupted() -> None:
    """Makes Ctrl-C end the process at once again, where it did at the start.

    For what comes after a run: its files are complete, and there are imports again.
    """
    if _ended_at_start:
        end_when_interrupted()


def raise_when_interrupted() -> None:
    """Makes Ctrl-C a KeyboardInterrupt again, for what has something to save or to close."""
    if signal.getsignal(signal.SIGINT) is _end:
        signal.signal(signal.SIGINT, signal.default_int_handler)


def _end(*unused: Any) -> None:
    os._exit(INTERRUPTED)
