"""How active a client's data make the neurons of a model: the scores of FedDSE.

    h_i = mean over examples and positions of |activation of channel i|

in one inference pass, batch by batch; only sums are kept of a layer's activations. Where several
activations belong to a group of channels (in residual networks), its score is their mean.
"""

from __future__ import annotations

import contextlib
import functools
from collections.abc import Iterator
from typing import Any, Callable

from tff_partial.core.lazy import tf
from tff_partial.core.model import Model
from tff_partial.submodels import groups
from tff_partial.submodels.groups import Channels


def build_scores(model: Model, channels: Channels, examples: int, batch_size: int) -> Any:
    """Returns `scores(x, seed) -> float32 [size] for each group`, with the model's weights.

    Normalisation uses moving statistics; static batch normalisation, which has none in training,
    those of the batch.

    Args:
      model: The full model.
      channels: Its channel groups.
      examples: How many random ones of x [n, ...] to use; 0 for all.
      batch_size: At a time.
    """
    sizes = [group.size for group in channels.groups]

    def sums(x: Any) -> Any:
        """[sum of the groups' sizes]: mean activations of a batch times its size."""
        with _observed(model, channels) as found, model.batch_statistics(static_only=True):
            model.forward(model.preprocess(x), training=False)
        means = [tf.add_n(group) / len(group) for group in found]
        return tf.concat(means, 0) * tf.cast(tf.shape(x)[0], tf.float32)

    def scores(x: Any, seed: Any) -> list[Any]:
        order = _chosen(tf.shape(x)[0], examples, seed)
        count = tf.size(order)
        total = tf.zeros([sum(sizes)])
        for start in tf.range(0, count, batch_size):
            # With oneDNN, iterations that overlap in one kernel corrupt the memory.
            tf.autograph.experimental.set_loop_options(parallel_iterations=1)
            total += sums(tf.gather(x, order[start : start + batch_size]))
        return tf.split(total / tf.cast(tf.maximum(count, 1), tf.float32), sizes)

    return scores


def _chosen(count: Any, examples: int, seed: Any) -> Any:
    """Indices of so many random examples; 0 for all."""
    if not examples:
        return tf.range(count)
    return tf.argsort(tf.random.stateless_uniform([count], seed))[:examples]


@contextlib.contextmanager
def _observed(model: Model, channels: Channels) -> Iterator[list[list[Any]]]:
    """For each group, the mean activation of each of its scored layers that is called."""
    found: list[list[Any]] = [[] for _ in channels.groups]
    layers = groups.layers_of(model.blocks)
    chosen = [layers[i] for i in channels.scored]
    for i, layer in zip(channels.scored, chosen):
        axis = channels.outputs[i]
        add = functools.partial(_add_mean, found[axis.group], channels.groups[axis.group].size)
        layer.call = _observing(layer.call, add)
    try:
        yield found
    finally:
        for layer in chosen:
            del layer.call


def _observing(call: Callable[..., Any], add: Callable[[Any], None]) -> Callable[..., Any]:
    @functools.wraps(call)
    def observing(*args: Any, **kwargs: Any) -> Any:
        outputs = call(*args, **kwargs)
        add(outputs)
        return outputs

    return observing


def _add_mean(found: list[Any], size: int, outputs: Any) -> None:
    found.append(tf.reduce_mean(tf.abs(tf.reshape(outputs, [-1, size])), axis=0))
