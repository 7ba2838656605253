"""The loop of every graph: without AutoGraph, whose conversions would be most of a run's start.

Iterations run one after the other: with oneDNN, iterations that overlap in one kernel corrupt the
memory.
"""

from __future__ import annotations

from typing import Callable, Union

from tff_partial.core.lazy import tf
from tff_partial.core.types import Structure, Tensor


def fold(
    body: Callable[[Tensor, Structure], Structure],
    value: Structure,
    start: Union[int, Tensor],
    stop: Union[int, Tensor],
    stride: int = 1,
) -> Structure:
    """Set value <- body(i, value) for i = start, start + stride, ... below stop; return it."""

    def step(i: Tensor, value: Structure) -> tuple[Tensor, Structure]:
        return i + stride, body(i, value)

    first = (tf.convert_to_tensor(start, tf.int32), value)
    return tf.while_loop(lambda i, _: i < stop, step, first, parallel_iterations=1)[1]
