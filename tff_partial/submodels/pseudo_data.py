"""Examples that a server makes up for a client, from the model alone: FedDSE's appendix A.3.

The paper refers to Zhu et al., Data-free knowledge distillation for heterogeneous federated
learning, 2021, whose server trains a generator G against the model f that it has:

    for each of N steps:
        z <- normal noise;  y <- any classes
        G <- Adam step of cross-entropy(f(G(z, y)), y) + 1/2 mean of G(z, y)^2 / 100
    examples of a client: G(z, y), y drawn by the client's shares of the labels

G is one hidden layer of ReLU units. It makes what the model sees after its preprocessing, which is
about standardised; the last term keeps it there. It starts anew each round from the record's seed,
so that it is a function of the model and the seed. The client tells the server its labels' shares
and nothing of its examples.
"""

from __future__ import annotations

import math
from typing import Callable

from tff_partial.core import loops
from tff_partial.core.lazy import tf, tff
from tff_partial.core.model import Model
from tff_partial.core.types import Structure, Tensor

STEPS = 100
_NOISE, _HIDDEN, _BATCH, _RATE, _PENALTY = 16, 64, 64, 0.01, 0.01
_FOLD = 0xA3  # keeps this noise apart from other draws


def build(model: Model, classes: int, examples: int) -> Callable[[Tensor, Tensor], Tensor]:
    """Return `generate(y, seed)`: so many examples [examples, ...] for a client with labels y.

    With the weights that the model has when it is called. They are after preprocessing.

    Raises:
      ValueError: If the model's inputs are words, or it has one logit.
    """
    shape = _shape(model, classes)
    sizes = ((_NOISE + classes, _HIDDEN), (_HIDDEN, math.prod(shape)))

    def generator(theta: Structure, labels: Tensor, seed: Tensor) -> Tensor:
        noise = tf.random.stateless_normal([tf.size(labels), _NOISE], seed)
        x = tf.concat([noise, tf.one_hot(labels, classes)], 1)
        hidden = tf.nn.relu(x @ theta[0] + theta[1])
        return tf.reshape(hidden @ theta[2] + theta[3], [-1, *shape])

    def loss(theta: Structure, labels: Tensor, seed: Tensor) -> Tensor:
        x = generator(theta, labels, seed)
        with model.batch_statistics(static_only=True):
            logits = model.forward(x, training=False)
        fit = tf.nn.sparse_softmax_cross_entropy_with_logits(labels, logits)
        return tf.reduce_mean(fit) + _PENALTY / 2 * tf.reduce_mean(tf.square(x))

    def generate(y: Tensor, seed: Tensor) -> Tensor:
        seed = tf.random.experimental.stateless_fold_in(seed, _FOLD)
        theta = _train(loss, _initial(sizes, seed), classes, seed)
        drawn = tf.random.stateless_uniform(
            [examples], seed, 0, tf.maximum(tf.size(y), 1), tf.int32
        )
        labels = tf.gather(tf.concat([y, [0]], 0), drawn)
        return generator(theta, labels, _folded(seed, STEPS))

    return generate


def _shape(model: Model, classes: int) -> tuple[int, ...]:
    """Return the shape of a preprocessed example; it must be of numbers."""
    with tf.Graph().as_default():
        example = tf.compat.v1.placeholder(model.spec.input_dtype, [1, *model.spec.input_shape])
        x = model.preprocess(example)
    if not x.dtype.is_floating or classes < 2:
        raise ValueError(
            "inference_data must be local for words or one logit. Received: inference_data="
            f"generated, inputs of {x.dtype.name}, {classes} logits"
        )
    return tuple(x.shape[1:])


def _initial(sizes: Structure, seed: Tensor) -> tuple[Tensor, ...]:
    """Return the generator's weights before training: kernel and bias of each layer."""
    theta: list[Tensor] = []
    for i, (rows, columns) in enumerate(sizes):
        kernel = tf.random.stateless_normal([rows, columns], _folded(seed, STEPS + 1 + i))
        theta += [kernel / math.sqrt(rows), tf.zeros([columns])]
    return tuple(theta)


def _train(
    loss: Callable[[Structure, Tensor, Tensor], Tensor],
    theta: tuple[Tensor, ...],
    classes: int,
    seed: Tensor,
) -> tuple[Tensor, ...]:
    """Return the generator's weights after N steps of Adam."""
    optimizer = tff.learning.optimizers.build_adam(_RATE)
    specs = tuple(tf.TensorSpec(w.shape, w.dtype) for w in theta)

    def make_step(step: Tensor, state: Structure) -> Structure:
        own = _folded(seed, step)
        labels = tf.random.stateless_uniform([_BATCH], own, 0, classes, tf.int32)
        adam, theta = state
        with tf.GradientTape() as tape:
            tape.watch(theta)
            value = loss(theta, labels, own)
        return optimizer.next(adam, theta, tuple(tape.gradient(value, theta)))

    _, theta = loops.fold(make_step, (optimizer.initialize(specs), theta), 0, STEPS)
    return theta


def _folded(seed: Tensor, number: Tensor) -> Tensor:
    return tf.random.experimental.stateless_fold_in(seed, number)
