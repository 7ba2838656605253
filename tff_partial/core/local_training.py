"""The one client loop; algorithms add terms of their own to the objective.

w <- w_0;  v <- 0;  s <- slope
for each local step:
    b <- next batch of a shuffle of the client's examples
    g <- gradient of the mean loss over b at w, and of what layers' regularisers add to it
    g <- g + weight_decay * w, of kernels                (weight_decay_on = kernels)
    g <- g + s                                           (of an algorithm's own terms)
    g <- g * min(1, clip_norm / |g|)                     (if given; of all of it)
    g <- g + weight_decay * w, of all parameters         (weight_decay_on = all)
    v <- momentum * v + g
    w <- w - eta * v;  w <- constraint(w)                (of variables that have one)
    s <- s - pull * eta * v                              (s = slope + pull * (w - w_0))
return w - w_0

An algorithm's own terms are <slope, w> + pull / 2 * |w - w_0|^2, and s is their gradient (sgd.py).
Instead of the two lines of v and w, other optimisers make the step (local_optimizers.py).
"""

from __future__ import annotations

import collections
import dataclasses
import functools
import math
from collections.abc import Sequence
from typing import Callable, Optional, Union

from tff_partial.core import (
    checks,
    keras_compat,
    local_optimizers,
    loops,
    objectives,
    precision,
    schedules,
)
from tff_partial.core.lazy import tf
from tff_partial.core.local_optimizers import LocalOptimizer, OptimizerLike
from tff_partial.core.model import Model
from tff_partial.core.part import Backprop, Part
from tff_partial.core.types import Metrics, Record, Structure, Tensor, Variable, Weights

# The local loop that `build` returns.
TrainFn = Callable[..., Metrics]
# What weight decay acts on.
DECAYED = ("kernels", "all")


@dataclasses.dataclass(frozen=True)
class LocalTraining:
    """How a client trains in a round.

    Attributes:
      steps: Number of local steps (tau); data that run out are reshuffled. Or:
      epochs: Number of passes over the local data; the last batch of a pass may be smaller.
      batch_size: Examples in a step.
      learning_rate: A schedule of the round (eta), or what `schedules.create` takes. By default
        0.1 for SGD, 0.001 for Adam and AdamW, and that of a `tff.learning.optimizers.Optimizer`.
      optimizer: `sgd`, `adam`, `adamw` or a `tff.learning.optimizers.Optimizer`; its state is fresh
        every round, unless clients keep their models.
      momentum: Momentum of local SGD; reset every round, unless clients keep their models.
      beta_1: Adam, AdamW: decay of the mean of gradients.
      beta_2: Adam, AdamW: decay of the mean of their squares.
      epsilon: Adam, AdamW: added to the root of the latter.
      weight_decay: Factor of w that is added to the gradient; AdamW subtracts eta times it instead.
      weight_decay_on: `kernels` adds it to the gradient of kernels before clipping, as a Keras
        regularizer does; `all` to that of every trainable parameter, biases and batch
        normalization included, after clipping, as PyTorch's SGD does.
      clip_norm: Largest global norm of a gradient; larger ones are scaled down to it.
      precision: Type that layers compute in, `float32`, `bfloat16` or `float16`; weights, momentum
        and statistics stay float32. Steps of float16 whose gradients overflow are skipped.
      record_precision: Type that recorded activations and client states are kept in, `float32` or
        `bfloat16`.
    """

    steps: Optional[int] = None
    epochs: Optional[int] = None
    batch_size: int = 32
    learning_rate: Optional[schedules.ScheduleLike] = None
    optimizer: OptimizerLike = "sgd"
    momentum: float = 0.0
    beta_1: float = 0.9
    beta_2: float = 0.999
    epsilon: float = 1e-7
    weight_decay: float = 0.0
    weight_decay_on: str = "kernels"
    clip_norm: Optional[float] = None
    precision: str = "float32"
    record_precision: str = "float32"

    def __post_init__(self) -> None:
        if (self.steps is None) == (self.epochs is None):
            raise ValueError(
                "local training must have either steps or epochs. "
                f"Received: steps={self.steps}, epochs={self.epochs}"
            )
        for name in ("steps", "epochs", "batch_size"):
            value = getattr(self, name)
            if value is not None and (not isinstance(value, int) or value < 1):
                raise ValueError(f"{name} must be a positive integer. Received: {name}={value}")
        checks.finite_fields(self, may_be_infinite=["clip_norm"])
        self._check_optimizer()
        if self.weight_decay < 0:
            raise ValueError(
                f"weight_decay must not be negative. Received: weight_decay={self.weight_decay}"
            )
        checks.one_of("weight_decay_on", self.weight_decay_on, DECAYED)
        checks.one_of("precision", self.precision, precision.PRECISIONS)
        checks.one_of("record_precision", self.record_precision, precision.RECORD_PRECISIONS)
        if self.clip_norm is not None and self.clip_norm < schedules.SMALLEST:
            raise ValueError(
                f"clip_norm must be a positive float32. Received: clip_norm={self.clip_norm}"
            )
        self.schedule()

    def _check_optimizer(self) -> None:
        local_optimizers.check(self.optimizer)
        for name in ("momentum", "beta_1", "beta_2"):
            value = getattr(self, name)
            if not 0 <= value < 1:
                raise ValueError(f"{name} must be in [0, 1). Received: {name}={value}")
        if self.epsilon <= 0:
            raise ValueError(f"epsilon must be positive. Received: epsilon={self.epsilon}")
        if self.momentum and self.optimizer != "sgd":
            raise ValueError(
                "momentum must be 0 with another optimizer than sgd. "
                f"Received: momentum={self.momentum}, optimizer={self.optimizer!r}"
            )

    def schedule(self) -> schedules.Schedule:
        """Return eta as a schedule of the round."""
        if self.learning_rate is not None:
            return schedules.create(self.learning_rate)
        is_named = isinstance(self.optimizer, str)
        return schedules.create(
            local_optimizers.DEFAULT_RATES[str(self.optimizer)] if is_named else 1.0
        )

    def check_sgd(self, reason: str) -> None:
        """Raise a ValueError unless the steps are SGD's, where an algorithm needs them for this."""
        if self.optimizer != "sgd":
            raise ValueError(
                f"optimizer must be sgd, {reason}. Received: optimizer={self.optimizer!r}"
            )

    def num_steps(self, num_examples: Tensor) -> Tensor:
        """Return the local steps of a client with so many examples; none without any."""
        if self.steps is not None:
            return tf.where(num_examples > 0, self.steps, 0)
        return self.epochs * ((num_examples + self.batch_size - 1) // self.batch_size)

    def effective_steps(self, num_steps: Tensor) -> Tensor:
        """Return how many gradients the displacement of a round is, float32.

        K steps from v = 0 move the weights by eta times the sum over k < K of
        (1 - momentum^(K - k)) / (1 - momentum) * g_k, so the displacement over eta and the sum of
        these factors is a mean of gradients (FedNova's normalisation). K without momentum.
        """
        if not self.momentum:
            return tf.cast(num_steps, tf.float32)
        num_steps = tf.cast(num_steps, tf.float64)  # near a momentum of 1 digits are lost
        carried = self.momentum * (1 - self.momentum**num_steps) / (1 - self.momentum)
        return tf.cast((num_steps - carried) / (1 - self.momentum), tf.float32)


class BatchOrder:
    """Which examples each local step uses: a stateless shuffle, so a round can be repeated.

    In `steps` mode batches are cut from an endless chain of shuffles and always full; in
    `epochs` mode each shuffle is cut by itself.
    """

    def __init__(self, local: LocalTraining, num_examples: Tensor, seed: Tensor) -> None:
        self._n, self._size, self._by_epoch = num_examples, local.batch_size, local.steps is None
        guarded = tf.maximum(num_examples, 1)
        if self._by_epoch:
            self._per_epoch = (num_examples + local.batch_size - 1) // local.batch_size
            num_shuffles = tf.constant(local.epochs)
        else:
            wanted = local.steps * local.batch_size  # type: ignore[operator]
            num_shuffles = (wanted + guarded - 1) // guarded
        self.num_steps = local.num_steps(num_examples)
        keys = tf.random.stateless_uniform([num_shuffles, num_examples], seed)
        self._order = tf.reshape(tf.argsort(keys, axis=1), [-1])

    def indices(self, step: Tensor) -> Tensor:
        """Return the indices of the examples of a step, int32 [at most batch_size]."""
        if not self._by_epoch:
            return self._order[step * self._size : (step + 1) * self._size]
        epoch_start = (step // self._per_epoch) * self._n
        start = epoch_start + (step % self._per_epoch) * self._size
        return self._order[start : tf.minimum(start + self._size, epoch_start + self._n)]


def backprop(model: Model, part: Part, x: Structure, y: Tensor) -> Backprop:
    """Return the gradients of a batch's mean loss; the loss and the logits of each example.

    What layers add to the loss (regularisers, `add_loss`) is in the gradients only.
    """
    with tf.GradientTape(watch_accessed_variables=False) as tape:
        tape.watch(part.variables)
        logits = part.forward(x)
        losses = model.losses(y, logits)
        loss = tf.reduce_mean(losses)
        if added := keras_compat.added_losses(part.blocks):
            loss = tf.add_n([loss, *added])
        if model.loss_scale is not None:
            loss = model.loss_scale.scaled(loss)
    gradients = [tf.convert_to_tensor(g) for g in tape.gradient(loss, part.variables)]
    if model.loss_scale is not None:
        gradients = model.loss_scale.unscaled(gradients)
    return gradients, losses, logits


def build(
    model: Model,
    part: Part,
    local: LocalTraining,
    pull: float = 0.0,
    optimizer: Optional[LocalOptimizer] = None,
) -> TrainFn:
    """Return the local loop `train(initial_weights, record, learning_rate, ...) -> sums`.

    To be called inside a `tf.function`. It leaves the trained weights in the model's variables
    and returns the sums of loss, correct predictions and examples over its steps, as float32
    scalars. The learning rate may be a function of the step. `slope`, a tensor for each variable of
    the part, and `pull` are the algorithm's own terms (see above); with a pull, what has become of
    the slope is left in the model's `sgd.SLOPE` buffers. Where a round is run in pieces, `steps`
    are the first step of a piece and the one after its last, and `state` what the piece before
    left in `optimizer.state`.
    """
    optimizer = optimizer or local_optimizers.create(model, part.variables, local, pull)
    scale = model.loss_scale
    gradients = _build_gradients(model, part, local, optimizer)

    def train(
        initial_weights: Weights,
        record: Record,
        learning_rate: Union[Tensor, Callable[[Tensor], Tensor]],
        slope: Sequence[Tensor] = (),
        steps: Optional[tuple[Tensor, Tensor]] = None,
        state: Sequence[Tensor] = (),
    ) -> Metrics:
        model.assign(initial_weights)
        optimizer.reset(state, slope)
        if scale is not None:
            scale.reset()
        by_step = callable(learning_rate)
        inputs = part.prepare(record)
        order = BatchOrder(local, tf.shape(record["y"])[0], record["seed"])
        first, stop = (0, order.num_steps) if steps is None else steps

        def make_step(step: Tensor, sums: Tensor) -> Tensor:
            if model.is_random:
                model.set_seed(record["seed"] + tf.stack([step + 1, 0]))
            indices = order.indices(step)
            x, y = part.batch(inputs, indices), tf.gather(record["y"], indices)
            grads, step_sums = gradients(x, y)
            rate = learning_rate(step) if by_step else learning_rate
            if scale is None:
                optimizer.apply(grads, rate)
            else:
                scale.apply_if_finite(grads, lambda: optimizer.apply(grads, rate))
            return sums + step_sums

        sums = loops.fold(make_step, tf.zeros([3]), first, tf.minimum(stop, order.num_steps))
        return collections.OrderedDict(loss=sums[0], correct=sums[1], examples=sums[2])

    return train


def _build_gradients(
    model: Model, part: Part, local: LocalTraining, optimizer: LocalOptimizer
) -> Callable[[Structure, Tensor], tuple[list[Tensor], Tensor]]:
    """Return (batch, labels) -> what a step follows; sums of loss, correct ones and examples."""
    variables = part.variables
    decay = 0.0 if local.optimizer == "adamw" else local.weight_decay
    differentiate = part.backprop or functools.partial(backprop, model, part)

    def decayed(grads: list[Tensor], chosen: Callable[[Variable], bool]) -> list[Tensor]:
        return [g + decay * v if chosen(v) else g for g, v in zip(grads, variables)]

    def gradients(x: Structure, y: Tensor) -> tuple[list[Tensor], Tensor]:
        grads, losses, logits = differentiate(x, y)
        if decay and local.weight_decay_on == "kernels":
            grads = decayed(grads, local_optimizers.is_kernel)
        if optimizer.slope:
            grads = [g + s for g, s in zip(grads, optimizer.slope)]
        if local.clip_norm is not None and math.isfinite(local.clip_norm):
            grads, _ = tf.clip_by_global_norm(grads, local.clip_norm)
        if decay and local.weight_decay_on == "all":
            grads = decayed(grads, lambda variable: True)
        size = tf.cast(tf.shape(y)[0], tf.float32)
        correct = tf.reduce_sum(objectives.accuracy(y, logits))
        return grads, tf.stack([tf.reduce_sum(losses), correct, size])

    return gradients
