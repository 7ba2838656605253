"""Mixed precision: the types of local training, and the loss scaling that float16 needs.

Layers compute in a short type; variables, and with them gradients, momentum and updates, stay
float32, as do the loss and the statistics of batch normalisation (Micikevicius et al., Mixed
precision training, 2018).
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Callable

from tff_partial.core.lazy import tf
from tff_partial.core.types import Structure, Tensor

PRECISIONS = ("float32", "bfloat16", "float16")
RECORD_PRECISIONS = ("float32", "bfloat16")
# The first scale is less than Keras's 2^15: a client has few steps, and should not skip some.
_FIRST_SCALE, _STEPS_TO_GROW = 2.0**10, 2000


def cast(structure: Structure, dtype: str) -> Structure:
    """Return the structure with its float tensors in a type; others stay as they are."""
    return tf.nest.map_structure(
        lambda t: tf.cast(t, dtype) if t.dtype.is_floating else t, structure
    )


class LossScale:
    """Dynamic loss scaling: float16 holds gradients of a scaled loss that else were 0.

    scale <- 2^10                             (when a client starts to train)
    for each local step:
        g <- gradient of scale * loss, / scale
        if all of g is finite: make the step  (after 2,000 such steps in a row: scale <- 2 * scale)
        else:                  scale <- max(scale / 2, 1)
    """

    def __init__(self) -> None:
        self._scale = tf.Variable(_FIRST_SCALE, trainable=False)
        self._finite_steps = tf.Variable(0, trainable=False)

    def reset(self) -> None:
        """Start anew."""
        self._scale.assign(_FIRST_SCALE, read_value=False)
        self._finite_steps.assign(0, read_value=False)

    def follow(self, other: LossScale) -> None:
        """Take the scale of another."""
        self._scale.assign(other._scale.read_value(), read_value=False)

    def scaled(self, loss: Tensor) -> Tensor:
        """Return the loss whose gradients are to be computed."""
        return loss * self._scale.read_value()

    def unscaled(self, gradients: Sequence[Tensor]) -> list[Tensor]:
        """Return the gradients of the loss itself."""
        scale = self._scale.read_value()
        return [gradient / scale for gradient in gradients]

    def apply_if_finite(self, gradients: Sequence[Tensor], apply: Callable[[], None]) -> None:
        """Make a step, unless its gradients overflow."""

        def apply_and_say() -> Tensor:
            apply()
            return tf.constant(True)

        tf.cond(self.admits(gradients), apply_and_say, lambda: tf.constant(False))

    def admits(self, gradients: Sequence[Tensor]) -> Tensor:
        """Return whether a step can be made, and set the scale of the next one."""
        finite = tf.reduce_all([tf.reduce_all(tf.math.is_finite(g)) for g in gradients])
        steps = tf.where(finite, self._finite_steps.read_value() + 1, 0)
        grows, scale = tf.equal(steps, _STEPS_TO_GROW), self._scale.read_value()
        grown = tf.where(grows, 2 * scale, scale)
        self._scale.assign(tf.where(finite, grown, tf.maximum(scale / 2, 1.0)), read_value=False)
        self._finite_steps.assign(tf.where(grows, 0, steps), read_value=False)
        return finite
