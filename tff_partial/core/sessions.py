"""Sessions, for graphs that are run once and thrown away."""

from __future__ import annotations

import functools
import os
import sys
from typing import Any

from tff_partial.core.lazy import tf


def create() -> Any:
    """Return a session of the current graph."""
    _start_first()
    return tf.compat.v1.Session()


@functools.cache
def _start_first() -> None:
    """Run a first session with nothing on stderr.

    TensorFlow notes there, once in a process, that MLIR does not optimise graphs of sessions. Its
    log level cannot be changed any more if the user has imported it before this package.
    """
    try:
        stderr = os.dup(2)
    except OSError:
        return  # there is none
    sys.stderr.flush()
    nothing = os.open(os.devnull, os.O_WRONLY)
    os.dup2(nothing, 2)
    try:
        with tf.Graph().as_default(), tf.compat.v1.Session() as session:
            session.run(tf.constant(0))
    finally:
        os.dup2(stderr, 2)
        os.close(stderr)
        os.close(nothing)
