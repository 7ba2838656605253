"""A model that trains at a width drawn for every step: ordered dropout (FjORD).

The weights live in the widest model. For a step, the first channels of it are assigned to the model
of the drawn width; its gradient is padded with zeros, and its batch-norm statistics go back.
"""

from __future__ import annotations

import functools
from collections.abc import Sequence
from typing import Any

from tff_partial import local_training, parts, submodels
from tff_partial.channel_groups import Channels
from tff_partial.lazy import tf
from tff_partial.model_spec import Model


def create_part(
    channels: Channels, widest: Model, nested: Sequence[tuple[Model, Sequence[int]]]
) -> parts.Part:
    """The whole of `widest`, each step trained at one of the nested widths.

    Args:
      channels: Channel groups of `widest`.
      widest: The model that the client holds.
      nested: The models that a step can use, with the channels that they have of each group;
        `widest` among them.
    """
    widest.is_random = True  # the width is drawn from the seed of the step

    def backprop(x: Any, y: Any) -> tuple[list[Any], Any, Any]:
        seed = tf.random.experimental.stateless_fold_in(widest.step_seed(), 0xF)
        drawn = tf.random.stateless_uniform([], seed, 0, len(nested), tf.int32)
        branches = [
            functools.partial(_backprop, channels, widest, model, sizes, x, y)
            for model, sizes in nested
        ]
        return tf.switch_case(drawn, branches)

    return parts.everything(widest)._replace(backprop=backprop)


def _backprop(
    channels: Channels, widest: Model, model: Model, sizes: Sequence[int], x: Any, y: Any
) -> tuple[list[Any], Any, Any]:
    forward = parts.everything(model).forward
    if model is widest:
        return local_training.backprop(model, model.trainable, forward, x, y)
    kept = [tf.range(k) for k in sizes]
    start = submodels.extract(channels, [*widest.trainable, *widest.statistics], kept)
    for variable, value in zip([*model.trainable, *model.statistics], start):
        variable.assign(value, read_value=False)
    model.set_seed(widest.step_seed())
    gradients, losses, logits = local_training.backprop(model, model.trainable, forward, x, y)
    moved = [v - w for v, w in zip(model.statistics, start[len(gradients) :])]
    padded, _ = submodels.restore(channels, [*gradients, *moved], kept)
    for variable, delta in zip(widest.statistics, padded[len(gradients) :]):
        variable.assign_add(delta, read_value=False)
    return padded[: len(gradients)], losses, logits
