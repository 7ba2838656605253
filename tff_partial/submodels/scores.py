"""How active a client's data make the neurons of a model: the scores of FedDSE.

    h_i = mean over examples and positions of |activation of channel i|

in one inference pass, batch by batch; only sums are kept of a layer's activations. Where several
activations belong to a group of channels (in residual networks), its score is their mean.
"""

from __future__ import annotations

import functools
from typing import Callable, Optional

from tff_partial.core import keras_compat, loops
from tff_partial.core.lazy import tf
from tff_partial.core.model import Model
from tff_partial.core.types import Layer, Structure, Tensor
from tff_partial.submodels import groups
from tff_partial.submodels.groups import Channels


def build_scores(
    model: Model,
    channels: Channels,
    examples: int,
    batch_size: int,
    preprocess: Optional[Callable[[Tensor], Tensor]] = None,
) -> Callable[[Tensor, Tensor], list[Tensor]]:
    """Return `scores(x, seed) -> float32 [size] for each group`, with the model's weights.

    It uses `examples` random ones of x [n, ...] (0: all), `batch_size` at a time. Normalisation
    uses moving statistics; static batch normalisation, which has none in training, the batch's.
    `preprocess` takes the place of the model's.
    """
    sizes = [group.size for group in channels.groups]

    def sums(x: Tensor) -> Tensor:
        """Return mean activations of a batch times its size, [sum of the groups' sizes]."""
        with model.batch_statistics(static_only=True):
            activations = _observe(model, channels, (preprocess or model.preprocess)(x))
        means = [tf.add_n(group) / len(group) for group in activations]
        return tf.concat(means, 0) * tf.cast(tf.shape(x)[0], tf.float32)

    def scores(x: Tensor, seed: Tensor) -> list[Tensor]:
        order = _chosen(tf.shape(x)[0], examples, seed)
        count = tf.size(order)

        def add_batch(start: Tensor, total: Tensor) -> Tensor:
            return total + sums(tf.gather(x, order[start : start + batch_size]))

        total = loops.fold(add_batch, tf.zeros([sum(sizes)]), 0, count, batch_size)
        return tf.split(total / tf.cast(tf.maximum(count, 1), tf.float32), sizes)

    return scores


def _chosen(count: Tensor, examples: int, seed: Tensor) -> Tensor:
    """Return the indices of so many random examples; 0 for all."""
    if not examples:
        return tf.range(count)
    return tf.argsort(tf.random.stateless_uniform([count], seed))[:examples]


def _observe(model: Model, channels: Channels, x: Tensor) -> list[list[Tensor]]:
    """Run the model; return for each group the mean activation of each of its scored layers."""
    activations: list[list[Tensor]] = [[] for _ in channels.groups]
    layers = groups.layers_of(model.blocks)
    group_of = {id(layers[i]): channels.outputs[i].group for i in channels.scored}

    def observing(layer: Layer) -> Callable[..., Tensor]:
        call, group = layer.call, group_of[id(layer)]

        @functools.wraps(call)
        def observed(*args: Structure, **kwargs: Structure) -> Tensor:
            outputs = call(*args, **kwargs)
            by_channel = tf.reshape(outputs, [-1, channels.groups[group].size])
            activations[group].append(tf.reduce_mean(tf.abs(by_channel), axis=0))
            return outputs

        return observed

    with keras_compat.replaced_calls([layers[i] for i in channels.scored], observing):
        model.forward(x, training=False)
    return activations
