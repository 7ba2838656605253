"""Vectors of parameters, so that algorithms read like their papers: `c_i - c + (x - y) / K`."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, Callable

from tff_partial.core.lazy import tf


class Vector:
    """One tensor for each trainable variable, with the arithmetic of a vector."""

    def __init__(self, tensors: Iterable[Any]) -> None:
        self.tensors = list(tensors)

    def map(self, function: Callable[..., Any], *others: Vector) -> Vector:
        """Applies a function to the tensors of each variable."""
        return Vector(function(*ts) for ts in zip(self.tensors, *(o.tensors for o in others)))

    def zeros(self) -> Vector:
        return self.map(tf.zeros_like)

    def __add__(self, other: Vector) -> Vector:
        return self.map(lambda a, b: a + b, other)

    def __sub__(self, other: Vector) -> Vector:
        return self.map(lambda a, b: a - b, other)

    def __mul__(self, factor: Any) -> Vector:
        return self.map(lambda a: a * factor)

    def __truediv__(self, divisor: Any) -> Vector:
        return self.map(lambda a: a / divisor)

    __rmul__ = __mul__


def choose(condition: Any, yes: Any, no: Any) -> Any:
    """One of two vectors, scalars or dictionaries of them, by a scalar, without a copy."""
    return wrap(tf.cond(condition, lambda: unwrap(yes), lambda: unwrap(no)))


def zeros(value: Any) -> Any:
    """Of the same structure."""
    return wrap(tf.nest.map_structure(tf.zeros_like, unwrap(value)))


def wrap(value: Any) -> Any:
    """Lists of tensors, also in dictionaries, become vectors."""
    if isinstance(value, dict):
        return type(value)((key, wrap(item)) for key, item in value.items())
    return Vector(value) if isinstance(value, (list, tuple)) else value


def unwrap(value: Any) -> Any:
    """The opposite of `wrap`."""
    if isinstance(value, dict):
        return type(value)((key, unwrap(item)) for key, item in value.items())
    return value.tensors if isinstance(value, Vector) else value
