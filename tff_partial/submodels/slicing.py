"""A sub-model's weights out of the full ones, and back: a pair of pure functions.

    extract(w, kept)    the rows and columns of the channels that are kept
    restore(d, kept)    d where it came from and 0 elsewhere; and 1 there, 0 elsewhere
    held(kept)          the latter alone: a mask that leaves the weights their size

`kept` has for each channel group the indices that are kept, int32 [k], or None for all of them.
For `held` it may also have the share that is kept, where channels are drawn: then the result is how
likely an element is held, axes being drawn independently of each other.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Callable, Optional, Union

import numpy as np

from tff_partial.core.lazy import tf
from tff_partial.core.types import Tensor
from tff_partial.submodels.groups import Channels
from tff_partial.submodels.neurons import ALWAYS, CLASSES, Axis

Kept = Sequence[Optional[Tensor]]


def extract(channels: Channels, values: Sequence[Tensor], kept: Kept) -> list[Tensor]:
    """Return the part of each value (one for each variable) that belongs to kept channels."""
    indices = _by_axis(channels, lambda axis: _indices(channels, axis, kept))
    return [_gathered(v, [indices[a] for a in axes]) for v, axes in zip(values, channels.axes)]


def restore(
    channels: Channels, values: Sequence[Tensor], kept: Kept, classes: Optional[Tensor] = None
) -> tuple[list[Tensor], list[Tensor]]:
    """Put the part of each value back to where `extract` took it.

    `classes` is 1.0 for each class that counts, else 0.0; all count by default.

    Returns:
      The values in full size, 0 elsewhere; and their weights, 1 where they are and 0 elsewhere,
      of size 1 along axes that are not sliced.
    """
    places = _by_axis(channels, lambda axis: _places(channels, axis, kept))
    full = [_spread(v, [places[a] for a in axes]) for v, axes in zip(values, channels.axes)]
    return full, held(channels, kept, classes)


def held(channels: Channels, kept: Kept, classes: Optional[Tensor] = None) -> list[Tensor]:
    """Return for each variable 1 where it belongs to kept channels, as `restore` does."""
    masks = _by_axis(channels, lambda axis: _mask(channels, axis, kept, classes))
    return [_weight([masks[a] for a in axes]) for axes in channels.axes]


def _by_axis(
    channels: Channels, function: Callable[[Optional[Axis]], Optional[Tensor]]
) -> dict[Optional[Axis], Optional[Tensor]]:
    """Apply the function to each axis once, for all variables that have such an axis."""
    return {axis: function(axis) for axis in {a: None for axes in channels.axes for a in axes}}


def _gathered(value: Tensor, indices: Sequence[Optional[Tensor]]) -> Tensor:
    for axis, chosen in enumerate(indices):
        if chosen is not None:
            value = tf.gather(value, chosen, axis=axis)
    return value


def _spread(value: Tensor, places: Sequence[Optional[Tensor]]) -> Tensor:
    for axis, place in enumerate(places):
        if place is not None:
            padding = [[0, int(j == axis)] for j in range(len(places))]
            value = tf.gather(tf.pad(value, padding), place, axis=axis)
    return value


def _weight(masks: Sequence[Optional[Tensor]]) -> Tensor:
    weight = tf.ones([1] * len(masks))
    for i, mask in enumerate(masks):
        if mask is not None:
            weight *= tf.reshape(mask, [-1 if j == i else 1 for j in range(len(masks))])
    return weight


def _places(channels: Channels, axis: Optional[Axis], kept: Kept) -> Optional[Tensor]:
    """Return where each channel is among those kept; others are read from a slice after them."""
    if axis is None or not _is_sliced(axis, kept):
        return None
    held = tf.cast(_flags(channels, axis, kept), tf.int32)
    return tf.where(held > 0, tf.cumsum(held) - 1, tf.reduce_sum(held))


def _mask(
    channels: Channels, axis: Optional[Axis], kept: Kept, classes: Optional[Tensor]
) -> Optional[Tensor]:
    """Return 1.0 for what is kept along an axis, else 0.0; None if the axis is not sliced."""
    if axis is None or not (axis.repeats or classes is not None):
        return None
    return _flags(channels, axis, kept, classes)


def _indices(channels: Channels, axis: Optional[Axis], kept: Kept) -> Optional[Tensor]:
    """Return what is kept along an axis; None for everything."""
    if axis is None or not _is_sliced(axis, kept):
        return None
    indices = tf.where(_flags(channels, axis, kept) > 0)[:, 0]
    return tf.ensure_shape(tf.cast(indices, tf.int32), [axis.kept(_sizes(channels, kept))])


def _is_sliced(axis: Axis, kept: Kept) -> bool:
    return any(kept[group] is not None for group in axis.repeats)


def _sizes(channels: Channels, kept: Kept) -> list[int]:
    return [g.size if k is None else k.shape[0] for g, k in zip(channels.groups, kept)]


def _flags(channels: Channels, axis: Axis, kept: Kept, classes: Optional[Tensor] = None) -> Tensor:
    """Return 1.0 at each position of an axis whose channel is kept, and counts, else 0.0."""
    parts = {group: _chosen(channels.groups[group].size, kept[group]) for group in axis.repeats}
    parts[ALWAYS] = tf.ones([1])
    parts[CLASSES] = tf.ones([channels.classes]) if classes is None else classes
    starts = dict(zip(parts, np.cumsum([0, *(part.shape[0] for part in parts.values())])))
    positions = [starts[group] for group in axis.group.tolist()] + axis.channel
    return tf.gather(tf.concat([*parts.values()], 0), positions.astype(np.int32))


def _chosen(size: int, kept: Union[Tensor, float, None]) -> Tensor:
    if kept is None:
        return tf.ones([size])
    if isinstance(kept, float):
        return tf.fill([size], kept)
    chosen = tf.reshape(kept, [-1, 1])
    return tf.tensor_scatter_nd_update(tf.zeros([size]), chosen, tf.ones_like(kept, tf.float32))
