"""What a client makes its local steps with: SGD (sgd.py), Adam, AdamW, or any optimiser of TFF's.

Its state is fresh in every round, unless clients keep their models.

    adam:   m <- beta_1 * m + (1 - beta_1) * g;  v <- beta_2 * v + (1 - beta_2) * g^2
            w <- w - eta * sqrt(1 - beta_2^t) / (1 - beta_1^t) * m / (sqrt(v) + epsilon)
    adamw:  w <- w - eta * weight_decay * w,  then the same

Kingma and Ba, Adam: a method for stochastic optimization, 2015; Loshchilov and Hutter, Decoupled
weight decay regularization, 2019. An algorithm's own terms are in g, as with SGD.
"""

from __future__ import annotations

import abc
import re
from collections.abc import Sequence
from typing import TYPE_CHECKING, Protocol, Union

from tff_partial.core import checks
from tff_partial.core.lazy import tf, tff
from tff_partial.core.model import Model
from tff_partial.core.sgd import SLOPE, Sgd, assign
from tff_partial.core.types import Structure, Tensor, Variable

if TYPE_CHECKING:
    from tff_partial.core.local_training import LocalTraining

# The learning rate where none is given.
DEFAULT_RATES = {"sgd": 0.1, "adam": 1e-3, "adamw": 1e-3}
NAMES = tuple(DEFAULT_RATES)

# A name, or an optimiser of TFF's.
OptimizerLike = Union[str, "tff.learning.optimizers.Optimizer"]


class LocalOptimizer(Protocol):
    """What makes the steps of a client.

    Attributes:
      slope: The gradient of an algorithm's own terms where the variables are now; empty for none.
      state: Variables that clients keep which keep their models.
    """

    slope: Sequence[Tensor]
    state: list[Variable]

    def reset(self, state: Sequence[Tensor] = (), slope: Sequence[Tensor] = ()) -> None:
        """Start from this state and this slope, or from zero."""

    def apply(self, gradients: Sequence[Tensor], learning_rate: Tensor) -> None:
        """Make a step."""


def check(optimizer: OptimizerLike) -> None:
    """Raise a ValueError unless this is a name or an optimiser of TFF's."""
    is_known = optimizer in NAMES if isinstance(optimizer, str) else _is_stock(optimizer)
    if not is_known:
        raise ValueError(
            f"optimizer must be one of {', '.join(NAMES)} or, in LocalTraining, a "
            "tff.learning.optimizers.Optimizer. "
            f"Received: optimizer={optimizer!r}{checks.did_you_mean(optimizer, NAMES)}"
        )


def _is_stock(optimizer: object) -> bool:
    return isinstance(optimizer, tff.learning.optimizers.Optimizer)


def create(
    model: Model, variables: Sequence[Variable], local: LocalTraining, pull: float = 0.0
) -> LocalOptimizer:
    """Return what makes the steps of `variables`; `pull` is that of the algorithm's own terms."""
    if local.optimizer == "sgd":
        return Sgd(model, variables, local.momentum, pull)
    steps = _Adam if isinstance(local.optimizer, str) else _Stock
    return steps(model, variables, local, pull)


def is_kernel(variable: Variable) -> bool:
    """Return whether weight decay of kernels acts on a variable."""
    # Several models in one graph: kernel, kernel_1, ...
    return re.search(r"kernel(_\d+)?$", variable.name.split(":")[0]) is not None


class _WithSlope(abc.ABC):
    """Steps that are no SGD: the slope follows the variables after each of them."""

    def __init__(
        self, model: Model, variables: Sequence[Variable], local: LocalTraining, pull: float
    ) -> None:
        self._variables, self._local, self._pull = variables, local, float(pull)
        self._slopes = [model.buffer(v, SLOPE) for v in (variables if pull else ())]
        self.slope: Sequence[Tensor] = self._slopes
        self.state: list[Variable] = []

    def reset(self, state: Sequence[Tensor] = (), slope: Sequence[Tensor] = ()) -> None:
        """Start from this state and this slope, or from zero."""
        assign(self.state, state)
        assign(self._slopes, slope)
        self.slope = self._slopes or slope

    def apply(self, gradients: Sequence[Tensor], learning_rate: Tensor) -> None:
        """Make a step; then apply the variables' constraints, as Keras's optimisers do."""
        before = [v.read_value() for v in self._variables] if self._slopes else []
        self._step(gradients, learning_rate)
        for variable in self._variables:
            if variable.constraint is not None:
                variable.assign(variable.constraint(variable.read_value()), read_value=False)
        for slope, variable, start in zip(self._slopes, self._variables, before):
            slope.assign_add(self._pull * (variable.read_value() - start), read_value=False)

    @abc.abstractmethod
    def _step(self, gradients: Sequence[Tensor], learning_rate: Tensor) -> None:
        """Make a step of the variables."""


class _Adam(_WithSlope):
    """Adam and AdamW, by TensorFlow's fused kernel."""

    def __init__(
        self, model: Model, variables: Sequence[Variable], local: LocalTraining, pull: float
    ) -> None:
        super().__init__(model, variables, local, pull)
        self._means = [model.buffer(v, "adam_mean") for v in variables]
        self._squares = [model.buffer(v, "adam_square") for v in variables]
        self._steps = tf.Variable(0.0, trainable=False)
        self.state = [*self._means, *self._squares, self._steps]
        is_decoupled = local.optimizer == "adamw" and local.weight_decay
        of_all = local.weight_decay_on == "all"
        self._decayed = [v for v in variables if is_decoupled and (of_all or is_kernel(v))]

    def _step(self, gradients: Sequence[Tensor], learning_rate: Tensor) -> None:
        local = self._local
        self._steps.assign_add(1.0, read_value=False)
        steps = self._steps.read_value()
        for variable in self._decayed:
            lost = learning_rate * local.weight_decay * variable.read_value()
            variable.assign_sub(lost, read_value=False)
        for v, mean, square, gradient in zip(
            self._variables, self._means, self._squares, gradients
        ):
            tf.raw_ops.ResourceApplyAdam(
                var=v.handle,
                m=mean.handle,
                v=square.handle,
                beta1_power=local.beta_1**steps,
                beta2_power=local.beta_2**steps,
                lr=learning_rate,
                beta1=local.beta_1,
                beta2=local.beta_2,
                epsilon=local.epsilon,
                grad=tf.convert_to_tensor(gradient),
            )


class _Stock(_WithSlope):
    """An optimiser of TFF's; its own learning rate holds where local training has none."""

    def __init__(
        self, model: Model, variables: Sequence[Variable], local: LocalTraining, pull: float
    ) -> None:
        super().__init__(model, variables, local, pull)
        self._kept = tf.nest.map_structure(
            lambda value: tf.Variable(tf.zeros_like(value), trainable=False), self._initial()
        )
        self.state = tf.nest.flatten(self._kept)

    def _initial(self) -> Structure:
        specs = tuple(tf.TensorSpec(v.shape, v.dtype) for v in self._variables)
        initial = self._local.optimizer.initialize(specs)  # type: ignore[union-attr]
        return tf.nest.map_structure(tf.convert_to_tensor, initial)

    def reset(self, state: Sequence[Tensor] = (), slope: Sequence[Tensor] = ()) -> None:
        super().reset(state or tf.nest.flatten(self._initial()), slope)

    def _step(self, gradients: Sequence[Tensor], learning_rate: Tensor) -> None:
        optimizer, state = self._local.optimizer, tf.nest.map_structure(_read, self._kept)
        if self._local.learning_rate is not None:
            state = with_rate(optimizer, state, learning_rate)
        weights = tuple(v.read_value() for v in self._variables)
        state, weights = optimizer.next(  # type: ignore[union-attr]
            state, weights, tuple(map(tf.convert_to_tensor, gradients))
        )
        assign([*self.state, *self._variables], [*tf.nest.flatten(state), *weights])


def with_rate(optimizer: OptimizerLike, state: Structure, learning_rate: Tensor) -> Structure:
    """Return the state of an optimiser of TFF's with another learning rate.

    Raises:
      ValueError: If it has none that could be set.
    """
    key = tff.learning.optimizers.LEARNING_RATE_KEY
    try:
        if key not in optimizer.get_hparams(state):  # type: ignore[union-attr]
            raise KeyError(key)
        hparams = {key: learning_rate}
        return optimizer.set_hparams(state, hparams)  # type: ignore[union-attr]
    except (KeyError, NotImplementedError):
        name = type(optimizer).__name__
        raise ValueError(
            "learning_rate must be left to an optimizer that has none in its state. "
            f"Received: optimizer={name}"
        ) from None


def _read(variable: Variable) -> Tensor:
    return variable.read_value()
