"""How active a client's data make the neurons of a model: the scores of FedDSE.

    h_i = mean over examples and positions of |activation of channel i|

in one inference pass, batch by batch; only sums are kept of a layer's activations. Where several
activations belong to a group of channels (in residual networks), its score is their mean.
"""

from __future__ import annotations

import functools
from typing import Callable, Optional

import numpy as np

from tff_partial.core import keras_compat, loops
from tff_partial.core.lazy import tf
from tff_partial.core.model import Model
from tff_partial.core.types import Layer, Structure, Tensor
from tff_partial.submodels import groups, layer_rules
from tff_partial.submodels.groups import Channels
from tff_partial.submodels.neurons import Axis


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
    """Run the model; return for each group the mean activation of each of its scored layers.

    A group that no layer says anything of has zeros.
    """
    activations: list[list[Tensor]] = [[] for _ in channels.groups]
    layers = groups.layers_of(model.blocks)
    heads = {i: layer_rules.activity_of(layers[i]) for i in channels.scored}
    graph = None if tf.executing_eagerly() else tf.compat.v1.get_default_graph()
    observed = {id(heads[i] or layers[i]): (axis, heads[i]) for i, axis in channels.scored.items()}

    def observing(layer: Layer) -> Callable[..., Tensor]:
        call, (axis, is_head) = layer.call, observed[id(layer)]

        @functools.wraps(call)
        def watched(*args: Structure, **kwargs: Structure) -> Tensor:
            outputs = call(*args, **kwargs)
            # A Sequential builds a graph of its own when it learns the shape of its input.
            if graph is not None and outputs.graph is not graph:
                return outputs
            values = tf.reduce_mean(tf.abs(args[0]), -1) if is_head else tf.abs(outputs)
            for group, means in _by_channel(channels, axis, values).items():
                activations[group].append(means)
            return outputs

        return watched

    with keras_compat.replaced_calls([heads[i] or layers[i] for i in channels.scored], observing):
        model.forward(x, training=False)
    zeros = [tf.zeros([group.size]) for group in channels.groups]
    return [means or [zero] for means, zero in zip(activations, zeros)]


def _by_channel(channels: Channels, axis: Axis, values: Tensor) -> dict[int, Tensor]:
    """Return for each group along the last axis of `values` the mean of each channel."""
    sizes = channels.sizes
    if len(axis.repeats) == 1:
        ((group, _),) = axis.repeats.items()
        whole = np.arange(axis.size) % sizes[group]
        if (axis.group == group).all() and (axis.channel == whole).all():
            return {group: tf.reduce_mean(tf.reshape(values, [-1, sizes[group]]), axis=0)}
    # Several groups side by side, or channels that stand there more than once in another order.
    means = tf.reduce_mean(tf.reshape(values, [-1, axis.size]), axis=0)
    found = {}
    for group, repeats in axis.repeats.items():
        (places,) = np.nonzero(axis.group == group)
        of_group = tf.gather(means, places)
        sums = tf.math.unsorted_segment_sum(of_group, axis.channel[places], sizes[group])
        found[group] = sums / repeats
    return found
