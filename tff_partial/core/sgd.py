"""Local SGD with momentum and the terms that an algorithm adds to the objective.

An algorithm's own terms are <slope, w> + pull / 2 * |w - w_0|^2. Their gradient s is moved along
with w by the same kernel, so that no step has to multiply w anew.
"""

from __future__ import annotations

from collections.abc import Sequence

from tff_partial.core.lazy import tf
from tff_partial.core.model import Model
from tff_partial.core.types import Tensor, Variable

# The buffers of a model that hold the gradient of an algorithm's own terms.
SLOPE = "slope"


class Sgd:
    """SGD with momentum on a part's variables, by TensorFlow's fused kernels.

    Attributes:
      slope: The gradient of the algorithm's own terms where the variables are now; empty for none.
      state: The momentum of each variable; empty without momentum.
    """

    def __init__(
        self, model: Model, variables: Sequence[Variable], momentum: float, pull: float
    ) -> None:
        self._variables, self._momentum, self._pull = variables, momentum, float(pull)
        self._buffers = [model.buffer(v) for v in (variables if momentum else ())]
        self._slopes = [model.buffer(v, SLOPE) for v in (variables if pull else ())]
        self.slope: Sequence[Tensor] = self._slopes
        self._constrained = [i for i, v in enumerate(variables) if v.constraint is not None]
        self.state = self._buffers

    def reset(self, state: Sequence[Tensor] = (), slope: Sequence[Tensor] = ()) -> None:
        """Start from this momentum and this slope, or from zero."""
        if len(slope) not in (0, len(self._variables)):
            raise ValueError(
                f"slope must have {len(self._variables)} tensors, as the part has variables. "
                f"Received: {len(slope)}"
            )
        assign(self._buffers, state)
        assign(self._slopes, slope)
        self.slope = self._slopes or slope

    def apply(self, gradients: Sequence[Tensor], learning_rate: Tensor) -> None:
        """Make a step; then apply the variables' constraints, as Keras's optimisers do."""
        self._move(gradients, learning_rate)
        for i in self._constrained:
            variable = self._variables[i]
            before = variable.read_value()
            after = variable.constraint(before)
            variable.assign(after, read_value=False)
            if self._slopes:
                self._slopes[i].assign_add(self._pull * (after - before), read_value=False)

    def _move(self, gradients: Sequence[Tensor], learning_rate: Tensor) -> None:
        if not self._momentum:
            _descend(self._variables, learning_rate, gradients)
            _descend(self._slopes, self._pull * learning_rate, gradients)
            return
        for v, buffer, g in zip(self._variables, self._buffers, gradients):
            # The buffer holds -eta * v: the same steps while eta is constant.
            tf.raw_ops.ResourceApplyKerasMomentum(
                var=v.handle, accum=buffer.handle, lr=learning_rate, grad=g, momentum=self._momentum
            )
        _descend(self._slopes, -self._pull, self._buffers)


def assign(variables: Sequence[Variable], values: Sequence[Tensor]) -> None:
    """Set variables to values, or to 0 if there are none."""
    zeros = [tf.zeros(variable.shape, variable.dtype) for variable in variables]
    for variable, value in zip(variables, values or zeros):
        variable.assign(value, read_value=False)


def _descend(variables: Sequence[Variable], eta: Tensor, gradients: Sequence[Tensor]) -> None:
    for v, gradient in zip(variables, gradients):
        delta = tf.convert_to_tensor(gradient)
        tf.raw_ops.ResourceApplyGradientDescent(var=v.handle, alpha=eta, delta=delta)
