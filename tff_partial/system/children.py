"""Processes that end with the process that started them, even if that is killed."""

from __future__ import annotations

import os
import signal
import sys
from collections.abc import Sequence

# Runs in the child: `preexec_fn` is unsafe when the parent has threads, and TensorFlow has many.
# The parent may be gone before prctl is called, hence the look at getppid.
_LAUNCHER = """
import ctypes, os, sys
prctl = getattr(ctypes.CDLL(None), 'prctl', None)
if prctl is not None:
    prctl(1, int(sys.argv[2]), 0, 0, 0)
if os.getppid() != int(sys.argv[1]):
    sys.exit('the parent process is gone')
os.execv(sys.argv[3], sys.argv[3:])
"""


def command(program: Sequence[str], on_death: signal.Signals) -> list[str]:
    """Return a command that runs a program and sends it a signal when its starting thread ends."""
    launcher = [sys.executable, "-I", "-S", "-c", _LAUNCHER]
    return [*launcher, str(os.getpid()), str(int(on_death)), *program]
