"""Choose what Ctrl-C and SIGTERM do: end the process, raise an error or ask it to stop."""

from __future__ import annotations

import os
import signal
import threading
from types import FrameType
from typing import Any, Callable, Optional

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


class StopSignals:
    """Remembers SIGINT or SIGTERM instead of ending the process, as long as the block lasts.

    Args:
      on_signal: Called with the signal's number.
      once: Whether a second signal acts as it would without this.

    Attributes:
      received: Number of the signal, or 0.
    """

    def __init__(self, on_signal: Callable[[int], None], once: bool = False) -> None:
        self.received = 0
        self._on_signal, self._once = on_signal, once
        self._previous: dict[int, Any] = {}

    def __enter__(self) -> StopSignals:
        raise_when_interrupted()  # what has begun has something to save
        if threading.current_thread() is threading.main_thread():
            for number in (signal.SIGINT, signal.SIGTERM):
                self._previous[number] = signal.signal(number, self._remember)
        return self

    def __exit__(self, *unused: object) -> None:
        for number, handler in self._previous.items():
            signal.signal(number, handler)
        self._previous = {}

    def _remember(self, number: int, frame: Optional[FrameType]) -> None:
        self.received = number
        if self._once:
            self.__exit__()
        self._on_signal(number)


def _end(*unused: object) -> None:
    os._exit(INTERRUPTED)
