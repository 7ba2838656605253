"""Faults of the machine, such as a full disk, in contrast to errors of the program."""

from __future__ import annotations

import re

from tff_partial.core.lazy import tf


def errors() -> tuple[type[Exception], ...]:
    """Return the exceptions that reading and writing files raises, in TensorFlow too."""
    return (
        OSError,
        tf.errors.DataLossError,
        tf.errors.FailedPreconditionError,
        tf.errors.NotFoundError,
        tf.errors.PermissionDeniedError,
        tf.errors.ResourceExhaustedError,
        tf.errors.UnavailableError,
    )


def line(error: BaseException) -> str:
    """Return the first line of an error, without the names of TensorFlow's operations."""
    text = re.sub(r"\{\{[^}]*\}\}|\[Op:.*", "", str(error)).strip() or type(error).__name__
    return text.splitlines()[0]
