"""Faults of the machine, such as a full disk, in contrast to errors of the program."""

from __future__ import annotations

import re
from typing import Any

from tff_partial.core.lazy import tf


def errors() -> tuple[type[Exception], ...]:
    """The exceptions that files raise, those that are written by TensorFlow included."""
    return (
        OSError,
        tf.errors.DataLossError,
        tf.errors.FailedPreconditionError,
        tf.errors.NotFoundError,
        tf.errors.PermissionDeniedError,
        tf.errors.ResourceExhaustedError,
        tf.errors.UnavailableError,
    )


def line(error: Any) -> str:
    """What happened, in a line, without the names of TensorFlow's operations."""
    text = re.sub(r"\{\{[^}]*\}\}|\[Op:.*", "", str(error)).strip() or type(error).__name__
    return text.splitlines()[0]
