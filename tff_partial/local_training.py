"""The one client loop; algorithms hook into it.

w <- w_0;  v <- 0
for each local step:
    b <- next batch of a shuffle of the client's examples
    g <- gradient of the mean loss over b at w, + weight_decay * w for kernels
    g <- gradient_fn(g, w, w_0)                          (an algorithm's own term)
    g <- g * min(1, clip_norm / |g|)                     (if given; after both terms)
    v <- momentum * v + g
    w <- w - eta * v
return w - w_0
"""

from __future__ import annotations

import collections
import dataclasses
import functools
import math
import re
from collections.abc import Sequence
from typing import Any, Callable, Optional, Union

from tff_partial import objectives, schedules
from tff_partial.lazy import tf
from tff_partial.model_spec import Model
from tff_partial.parts import Part

GradientFn = Callable[[Sequence[Any], Sequence[Any], Sequence[Any]], Sequence[Any]]


@dataclasses.dataclass(frozen=True)
class LocalTraining:
    """How a client trains in a round.

    Attributes:
      steps: Number of local steps (tau); data that run out are reshuffled. Or:
      epochs: Number of passes over the local data; the last batch of a pass may be smaller.
      batch_size: Examples in a step.
      learning_rate: A schedule of the round (eta), or what `schedules.create` takes.
      momentum: Local, and fresh each round.
      weight_decay: Factor of w that is added to the gradient of kernels.
      clip_norm: If given and finite, gradients are scaled to at most this global norm.
    """

    steps: Optional[int] = None
    epochs: Optional[int] = None
    batch_size: int = 32
    learning_rate: Union[schedules.Schedule, float, str] = 0.1
    momentum: float = 0.0
    weight_decay: float = 0.0
    clip_norm: Optional[float] = None

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
        if not 0 <= self.momentum < 1:
            raise ValueError(f"momentum must be in [0, 1). Received: momentum={self.momentum}")
        if self.weight_decay < 0:
            raise ValueError(
                f"weight_decay must not be negative. Received: weight_decay={self.weight_decay}"
            )
        if self.clip_norm is not None and self.clip_norm <= 0:
            raise ValueError(f"clip_norm must be positive. Received: clip_norm={self.clip_norm}")
        schedules.create(self.learning_rate)

    def schedule(self) -> schedules.Schedule:
        """eta as a schedule."""
        return schedules.create(self.learning_rate)

    def rate(self, round_num: Any) -> Any:
        """eta in a round, as a float32 scalar tensor."""
        return self.schedule()(round_num)

    def num_steps(self, num_examples: Any) -> Any:
        """Local steps of a client with so many examples; none without any."""
        if self.steps is not None:
            return tf.where(num_examples > 0, self.steps, 0)
        return self.epochs * ((num_examples + self.batch_size - 1) // self.batch_size)


class BatchOrder:
    """Which examples each local step uses: a stateless shuffle, so a round can be repeated.

    In `steps` mode batches are cut from an endless chain of shuffles and always full; in
    `epochs` mode each shuffle is cut by itself.
    """

    def __init__(self, local: LocalTraining, num_examples: Any, seed: Any) -> None:
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

    def indices(self, step: Any) -> Any:
        """Indices of the examples of a step, int32 [at most batch_size]."""
        if not self._by_epoch:
            return self._order[step * self._size : (step + 1) * self._size]
        epoch_start = (step // self._per_epoch) * self._n
        start = epoch_start + (step % self._per_epoch) * self._size
        return self._order[start : tf.minimum(start + self._size, epoch_start + self._n)]


class Momentum:
    """SGD with momentum on a part's variables, by TensorFlow's fused kernels."""

    def __init__(self, model: Model, variables: Sequence[Any], local: LocalTraining) -> None:
        self._variables, self._momentum = variables, local.momentum
        self._buffers = [model.buffer(v) for v in (variables if local.momentum else ())]

    def reset(self, values: Sequence[Any] = ()) -> None:
        """Starts from these buffers, or from none."""
        zeros = [tf.zeros(buffer.shape, buffer.dtype) for buffer in self._buffers]
        for buffer, value in zip(self._buffers, values or zeros):
            buffer.assign(value, read_value=False)

    def apply(self, gradients: Sequence[Any], learning_rate: Any) -> None:
        if not self._momentum:
            for v, g in zip(self._variables, gradients):
                tf.raw_ops.ResourceApplyGradientDescent(var=v.handle, alpha=learning_rate, delta=g)
        for v, buffer, g in zip(self._variables, self._buffers, gradients):
            # The buffer holds -eta * v: the same steps while eta is constant.
            tf.raw_ops.ResourceApplyKerasMomentum(
                var=v.handle, accum=buffer.handle, lr=learning_rate, grad=g, momentum=self._momentum
            )


def backprop(
    model: Model, variables: Sequence[Any], forward: Callable[[Any], Any], x: Any, y: Any
) -> tuple[list[Any], Any, Any]:
    """Gradients of a batch's mean loss; the loss and the logits of each example."""
    with tf.GradientTape(watch_accessed_variables=False) as tape:
        tape.watch(variables)
        logits = forward(x)
        losses = model.losses(y, logits)
        loss = tf.reduce_mean(losses)
    gradients = [tf.convert_to_tensor(g) for g in tape.gradient(loss, variables)]
    return gradients, losses, logits


def build(model: Model, part: Part, local: LocalTraining) -> Callable[..., Any]:
    """Returns the local loop `train(initial_weights, record, learning_rate, ...) -> sums`.

    To be called inside a `tf.function`. It leaves the trained weights in the model's variables
    and returns the sums of loss, correct predictions and examples over its steps, as float32
    scalars. The rate may be a function of the step. `gradient_fn` is an algorithm's own change of
    the gradient. Where a round is run in pieces, `steps` are the first step of a piece and the
    one after its last, and `momentum` what the piece before left in the model's buffers.
    """
    variables = part.variables
    optimizer = Momentum(model, variables, local)
    positions = [_index(model.trainable, v) for v in variables]
    differentiate = part.backprop or functools.partial(backprop, model, variables, part.forward)

    def gradients(
        x: Any, y: Any, initial: Sequence[Any], gradient_fn: Optional[GradientFn]
    ) -> tuple[Any, Any]:
        grads, losses, logits = differentiate(x, y)
        if local.weight_decay:
            grads = [_decayed(g, v, local.weight_decay) for g, v in zip(grads, variables)]
        if gradient_fn is not None:
            grads = list(gradient_fn(grads, variables, initial))
        if local.clip_norm is not None and math.isfinite(local.clip_norm):
            grads, _ = tf.clip_by_global_norm(grads, local.clip_norm)
        size = tf.cast(tf.shape(y)[0], tf.float32)
        correct = tf.reduce_sum(objectives.accuracy(y, logits))
        return grads, tf.stack([tf.reduce_sum(losses), correct, size])

    def train(
        initial_weights: Any,
        record: Any,
        learning_rate: Any,
        gradient_fn: Optional[GradientFn] = None,
        steps: Optional[tuple[Any, Any]] = None,
        momentum: Sequence[Any] = (),
    ) -> Any:
        model.assign(initial_weights)
        optimizer.reset(momentum)
        initial = [initial_weights.trainable[i] for i in positions]
        by_step = callable(learning_rate)
        inputs = part.prepare(record)
        order = BatchOrder(local, tf.shape(record["y"])[0], record["seed"])
        sums = tf.zeros([3])
        first, stop = (0, order.num_steps) if steps is None else steps
        for step in tf.range(first, tf.minimum(stop, order.num_steps)):
            if model.is_random:
                model.set_seed(record["seed"] + tf.stack([step + 1, 0]))
            indices = order.indices(step)
            x, y = part.batch(inputs, indices), tf.gather(record["y"], indices)
            grads, step_sums = gradients(x, y, initial, gradient_fn)
            optimizer.apply(grads, learning_rate(step) if by_step else learning_rate)
            sums += step_sums
        return collections.OrderedDict(loss=sums[0], correct=sums[1], examples=sums[2])

    return train


def _index(variables: Sequence[Any], wanted: Any) -> int:
    return next(i for i, v in enumerate(variables) if v is wanted)


def _decayed(gradient: Any, variable: Any, weight_decay: float) -> Any:
    # Several models in one graph: kernel, kernel_1, ...
    is_kernel = re.search(r"kernel(_\d+)?$", variable.name.split(":")[0]) is not None
    return gradient + weight_decay * variable if is_kernel else gradient
