"""What clients do that hold single elements of the weights: those of the largest magnitude.

    theta <- the k-th largest |w| of the server's weights, k = floor(rate * their number)
    w     <- w_t where |w_t| >= theta, else 0
    each step follows  g * M * (1 + 2 theta |w| / (|w| + theta)^2),
        M = 1 where |w| >= theta, else 0;  g is the gradient of the loss at M w
    w - w_t is sent where |w_t| >= theta

The last factor is the derivative of w * M(w), where M has the slope of 2 |w| / (|w| + theta) in
place of that of a step (FIARSE). Layers with a matrix or a kernel are masked, their biases too;
normalisation is not.
"""

from __future__ import annotations

import collections
from collections.abc import Sequence

from tff_partial.core import local_training
from tff_partial.core.lazy import tf, tff
from tff_partial.core.local_training import LocalTraining
from tff_partial.core.model import Model, ModelSpec
from tff_partial.core.part import Backprop, Part, carrying, everything
from tff_partial.core.types import ClientResult, Metrics, Record, Structure, Tensor, Weights
from tff_partial.processes import client_work

# The threshold is one of the whole model, or one of each layer.
THRESHOLDS = ("global", "local")
# Positions among the trainable variables of those that have a threshold in common.
Masked = Sequence[Sequence[int]]


def masked(model: Model, threshold: str) -> Masked:
    """Return the variables that are masked."""
    position = {id(v): i for i, v in enumerate(model.trainable)}
    layers = {id(x): x for block in model.blocks for x in block._flatten_layers()}
    own = [
        [position[id(v)] for v in layer._trainable_weights if id(v) in position]
        for layer in layers.values()
        if any(v.shape.rank > 1 for v in layer._trainable_weights)
    ]
    return own if threshold == "local" else [[i for layer in own for i in layer]]


def count(model: ModelSpec) -> int:
    """Return how many numbers are masked; counted once for a `ModelSpec`."""
    cache = vars(model)
    if "_masked_count" not in cache:
        with tf.Graph().as_default():
            built = model.instantiate(initial=False)
            (indices,) = masked(built, "global")
            numbers = [built.trainable[i].shape.num_elements() for i in indices]
        cache["_masked_count"] = sum(numbers)
    return cache["_masked_count"]


def thresholds(values: Sequence[Tensor], together: Masked, rate: float) -> dict[int, Tensor]:
    """Return theta of each masked variable; 0 at rate 1, where nothing is left out."""
    found = {}
    for indices in together:
        magnitudes = tf.sort(tf.concat([tf.reshape(tf.abs(values[i]), [-1]) for i in indices], 0))
        size = magnitudes.shape[0]
        kept = max(1, int(rate * size))
        theta = magnitudes[size - kept] if kept < size else tf.zeros([])
        found.update(dict.fromkeys(indices, theta))
    return found


def holds(values: Sequence[Tensor], thetas: dict[int, Tensor]) -> list[Tensor]:
    """Return for each variable 1.0 where an element is held, else 0.0; a scalar if all are."""
    return [
        tf.cast(tf.abs(value) >= thetas[i], tf.float32) if i in thetas else tf.ones([])
        for i, value in enumerate(values)
    ]


def create(
    model: Model, rate: float, threshold: str, local: LocalTraining, weighting: str
) -> client_work.ClientFn:
    """Return what a client does that holds this share of the masked elements."""
    together = masked(model, threshold)
    part = everything(model) if rate == 1 else _masked_part(model)
    train, learning_rate = local_training.build(model, part, local), local.schedule()

    def run(weights: Weights, record: Record, round_num: Tensor) -> tuple[ClientResult, Metrics]:
        ModelWeights = tff.learning.models.ModelWeights
        thetas = thresholds(weights.trainable, together, rate)
        held = holds(weights.trainable, thetas)
        start = [w * h for w, h in zip(weights.trainable, held)]
        known = collections.OrderedDict(record, thresholds=thetas)
        sums = train(ModelWeights(start, weights.non_trainable), known, learning_rate(round_num))
        deltas = [(v - w) * h for v, w, h in zip(model.trainable, start, held)]
        moved = [v - w for v, w in zip(model.statistics, weights.non_trainable)]
        weight = client_work.client_weight(record, weighting)
        own = [weight * h for h in held]
        return tff.learning.templates.ClientResult(
            update=ModelWeights(deltas, moved),
            update_weight=ModelWeights(own, [weight] * len(moved)),
        ), sums

    return run


def _masked_part(model: Model) -> Part:
    """Return the whole model, differentiated at M w, with the thresholds that the record has."""

    part = everything(model)

    def backprop(inputs: Structure, y: Tensor) -> Backprop:
        examples, thetas = inputs
        own = {i: model.trainable[i].read_value() for i in thetas}
        for i, w in own.items():
            kept = tf.cast(tf.abs(w) >= thetas[i], tf.float32)
            model.trainable[i].assign(w * kept, read_value=False)
        gradients, *others = local_training.backprop(model, part, examples, y)
        with tf.control_dependencies([*gradients, *others]):
            for i, w in own.items():
                model.trainable[i].assign(w, read_value=False)
        for i, w in own.items():
            gradients[i] *= _derivative(tf.abs(w), thetas[i])
        return (gradients, *others)

    return carrying(part, "thresholds")._replace(backprop=backprop)


def _derivative(magnitude: Tensor, theta: Tensor) -> Tensor:
    """Return that of w * M(w)."""
    slope = tf.math.divide_no_nan(2 * theta * magnitude, tf.square(magnitude + theta))
    return tf.cast(magnitude >= theta, tf.float32) * (1 + slope)
