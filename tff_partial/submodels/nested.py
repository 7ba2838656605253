"""A model that trains at a width drawn for every step: ordered dropout (FjORD).

The weights live in the widest model. For a step, the first channels of it are assigned to the model
of the drawn width; its gradient is padded with zeros, and its batch-norm statistics go back.
"""

from __future__ import annotations

import functools
from collections.abc import Sequence

from tff_partial.core import local_training
from tff_partial.core.lazy import tf
from tff_partial.core.model import Model
from tff_partial.core.part import Backprop, Part, everything
from tff_partial.core.types import Tensor
from tff_partial.submodels import slicing
from tff_partial.submodels.groups import Channels


def create_part(
    channels: Channels, widest: Model, nested: Sequence[tuple[Model, Sequence[int]]]
) -> Part:
    """Return the whole of `widest`, each step trained at one of the nested widths.

    `channels` are the groups of `widest`; `nested` the models that a step can use, `widest` among
    them, with the channels that they have of each group.
    """
    widest.is_random = True  # the width is drawn from the seed of the step

    def backprop(x: Tensor, y: Tensor) -> Backprop:
        seed = tf.random.experimental.stateless_fold_in(widest.step_seed(), 0xF)
        drawn = tf.random.stateless_uniform([], seed, 0, len(nested), tf.int32)
        branches = [
            functools.partial(_backprop, channels, widest, model, sizes, x, y)
            for model, sizes in nested
        ]
        return tf.switch_case(drawn, branches)

    return everything(widest)._replace(backprop=backprop)


def _backprop(
    channels: Channels, widest: Model, model: Model, sizes: Sequence[int], x: Tensor, y: Tensor
) -> Backprop:
    if model is widest:
        return local_training.backprop(model, everything(model), x, y)
    kept = [tf.range(k) for k in sizes]
    start = slicing.extract(channels, widest.variables, kept)
    for variable, value in zip(model.variables, start):
        variable.assign(value, read_value=False)
    model.set_seed(widest.step_seed())
    if model.loss_scale is not None and widest.loss_scale is not None:
        model.loss_scale.follow(widest.loss_scale)
    gradients, losses, logits = local_training.backprop(model, everything(model), x, y)
    moved = [v - w for v, w in zip(model.statistics, start[len(gradients) :])]
    padded, _ = slicing.restore(channels, [*gradients, *moved], kept)
    for variable, delta in zip(widest.statistics, padded[len(gradients) :]):
        variable.assign_add(delta, read_value=False)
    return padded[: len(gradients)], losses, logits
