"""Ensemble distillation on the server (FedDF), after the clients' mean.

Lin et al., Ensemble distillation for robust model fusion in federated learning, 2020, as Wang et
al. (FedDSE, section 7.6) combine it with sub-models. With U the server's unlabelled examples:

    every client k:  z_k <- logits of its trained model on U
    server:          w   <- w + mean of the clients' updates
                     z   <- mean of z_k
                     for each distillation step, with a batch b of U:
                         w <- Adam step of KL(softmax(z_b), softmax(logits of w on b))

A model with one logit has sigmoids in place of the softmax.

Clients send their logits on U, which is what the server would compute from their models.
"""

from __future__ import annotations

import collections
import dataclasses
from typing import Callable, Optional

import numpy as np

from tff_partial.core import loops
from tff_partial.core.lazy import tf, tff
from tff_partial.core.model import Model, ModelSpec
from tff_partial.core.types import Array, Federated, FinalizerProcess, Structure, Tensor, Weights

_BATCH = 128
REFUSED = dict.fromkeys(("robust", "dp"), "clients send logits beside their update")
"""Aggregations that are refused where the server distils, and why."""


@dataclasses.dataclass(frozen=True)
class Distillation:
    """How the server distils.

    Attributes:
      examples: U, as clients hold theirs [n, ...].
      steps: Distillation steps after every round.
      learning_rate: Learning rate of Adam.
    """

    examples: Array
    steps: int = 50
    learning_rate: float = 1e-3

    def __post_init__(self) -> None:
        if not len(self.examples):
            raise ValueError("distillation must have examples of the server. Received: 0 examples")


def check(examples: int, steps: int, learning_rate: float, prefix: str = "") -> None:
    """Raise a ValueError if one is out of range; their names begin with `prefix`."""
    if examples < 0:
        name = prefix.removesuffix("_") or "examples"
        raise ValueError(f"{name} must not be negative. Received: {name}={examples}")
    for name, value in (("steps", steps), ("learning_rate", learning_rate)):
        if value <= 0:
            raise ValueError(f"{prefix}{name} must be positive. Received: {prefix}{name}={value}")


def create(
    server_examples: Optional[Callable[[int], Array]],
    examples: int,
    steps: int,
    learning_rate: float,
) -> Optional[Distillation]:
    """Return how the server distils with so many examples; None with 0."""
    if not examples:
        return None
    if server_examples is None:
        raise ValueError(
            f"server_examples must be given to distil. Received: {examples} wanted, none given"
        )
    return Distillation(server_examples(examples), steps, learning_rate)


def build_logits(model: Model, examples: Array) -> Callable[[], Tensor]:
    """Return a function that computes the logits of the model's present weights, batch by batch.

    Batch normalisation that tracks no statistics uses those of the batch.
    """

    def logits() -> Tensor:
        x = tf.constant(examples)
        batches = []
        with model.batch_statistics(static_only=True):
            for start in range(0, len(examples), _BATCH):
                batch = model.preprocess(x[start : start + _BATCH])
                batches.append(model.forward(batch, training=False))
        return tf.concat(batches, 0)

    return logits


def build_finalizer(model: ModelSpec, distillation: Distillation, classes: int) -> FinalizerProcess:
    """Return the finalizer of an update that has `weights` and `logits`.

    Its state is the number of rounds, from which the order of the examples follows.
    """
    update_type = tff.StructWithPythonType(
        [
            ("weights", model.weights_type),
            ("logits", tff.TensorType(np.float32, [len(distillation.examples), classes])),
        ],
        collections.OrderedDict,
    )

    @tff.tensorflow.computation(model.weights_type, update_type, np.int32)
    def apply_update(weights: Weights, update: Structure, round_num: Tensor) -> Structure:
        student = model.instantiate()
        distil = _build_steps(student, distillation)

        @tf.function(autograph=False)
        def run(weights: Weights, update: Structure, round_num: Tensor) -> Structure:
            student.assign(tf.nest.map_structure(tf.add, weights, update["weights"]))
            # Without a contributor the mean is 0: nothing to learn from.
            has_logits = tf.reduce_any(tf.not_equal(update["logits"], 0.0))
            steps = tf.where(has_logits, distillation.steps, 0)
            distil(update["logits"], round_num, steps)
            return tf.nest.map_structure(lambda v: v.read_value(), student.weights)

        return run(weights, update, round_num), round_num + 1

    @tff.federated_computation
    def initialize() -> Federated:
        return tff.federated_value(0, tff.SERVER)

    @tff.federated_computation(
        initialize.type_signature.result,
        tff.FederatedType(model.weights_type, tff.SERVER),
        tff.FederatedType(update_type, tff.SERVER),
    )
    def next_fn(round_num: Federated, weights: Federated, update: Federated) -> Federated:
        new = tff.federated_map(apply_update, (weights, update, round_num))
        return tff.templates.MeasuredProcessOutput(
            new[1], new[0], tff.federated_value((), tff.SERVER)
        )

    return tff.learning.templates.FinalizerProcess(initialize, next_fn)


def _build_steps(
    student: Model, distillation: Distillation
) -> Callable[[Tensor, Tensor, Tensor], None]:
    """Return `distil(ensemble, round_num, steps)`, the server's loop on the student's variables."""
    optimizer = tff.learning.optimizers.build_adam(distillation.learning_rate)
    examples, variables = distillation.examples, tuple(student.trainable)
    size = min(_BATCH, len(examples))

    def gradients(x: Tensor, ensemble: Tensor) -> tuple[Tensor, ...]:
        with tf.GradientTape() as tape:
            logits = student.forward(student.preprocess(x), training=True)
            loss = tf.reduce_mean(_cross_entropy(ensemble, logits))
        return tuple(tape.gradient(loss, variables))

    def distil(ensemble: Tensor, round_num: Tensor, steps: Tensor) -> None:
        x = tf.constant(examples)
        specs = tuple(tf.TensorSpec(v.shape, v.dtype) for v in variables)

        def make_step(step: Tensor, state: Structure) -> Structure:
            student.set_seed(tf.stack([round_num, step]))
            keys = tf.random.stateless_uniform([len(examples)], tf.stack([round_num, step]))
            batch = tf.argsort(keys)[:size]
            gradient = gradients(tf.gather(x, batch), tf.gather(ensemble, batch))
            values = tuple(v.read_value() for v in variables)
            state, values = optimizer.next(state, values, gradient)
            for variable, value in zip(variables, values):
                variable.assign(value, read_value=False)
            return state

        loops.fold(make_step, optimizer.initialize(specs), 0, steps)

    return distil


def _cross_entropy(teacher: Tensor, student: Tensor) -> Tensor:
    """Return the loss of each example, from the logits [n, classes] of both."""
    if teacher.shape[-1] == 1:
        return tf.nn.sigmoid_cross_entropy_with_logits(tf.sigmoid(teacher), student)
    return tf.nn.softmax_cross_entropy_with_logits(tf.nn.softmax(teacher), student)
