"""Vectors of parameters, so that algorithms read like their papers: `c_i - c + (x - y) / K`."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Callable, Union

from tff_partial.core.lazy import tf
from tff_partial.core.types import Structure, Tensor


class Vector:
    """One tensor for each trainable variable, with the arithmetic of a vector."""

    def __init__(self, tensors: Iterable[Tensor]) -> None:
        self.tensors = list(tensors)

    def map(self, function: Callable[..., Tensor], *others: Vector) -> Vector:
        """Apply a function to the tensors of each variable."""
        return Vector(function(*ts) for ts in zip(self.tensors, *(o.tensors for o in others)))

    def zeros(self) -> Vector:
        """Return a vector of the same shapes, all 0."""
        return self.map(tf.zeros_like)

    def __add__(self, other: Vector) -> Vector:
        return self.map(lambda a, b: a + b, other)

    def __sub__(self, other: Vector) -> Vector:
        return self.map(lambda a, b: a - b, other)

    def __mul__(self, factor: Union[Tensor, float]) -> Vector:
        return self.map(lambda a: a * factor)

    def __truediv__(self, divisor: Union[Tensor, float]) -> Vector:
        return self.map(lambda a: a / divisor)

    __rmul__ = __mul__


def choose(condition: Tensor, yes: Structure, no: Structure) -> Structure:
    """Return one of two vectors, scalars or dictionaries of them by a scalar, without a copy."""
    return wrap(tf.cond(condition, lambda: unwrap(yes), lambda: unwrap(no)))


def zeros(value: Structure) -> Structure:
    """Return zeros in the structure of a vector, a scalar or a dictionary of them."""
    return wrap(tf.nest.map_structure(tf.zeros_like, unwrap(value)))


def wrap(value: Structure) -> Structure:
    """Turn lists of tensors, also in dictionaries, into vectors."""
    if isinstance(value, dict):
        return type(value)((key, wrap(item)) for key, item in value.items())
    return Vector(value) if isinstance(value, (list, tuple)) else value


def unwrap(value: Structure) -> Structure:
    """Turn vectors, also in dictionaries, into lists of tensors."""
    if isinstance(value, dict):
        return type(value)((key, unwrap(item)) for key, item in value.items())
    return value.tensors if isinstance(value, Vector) else value
