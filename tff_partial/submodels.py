"""A sub-model's weights out of the full ones, and back: a pair of pure functions.

    extract(w, kept)    the rows and columns of the channels that are kept
    restore(d, kept)    d where it came from and 0 elsewhere; and 1 there, 0 elsewhere

`kept` has for each channel group the indices that are kept, int32 [k], or None for all of them.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Optional

from tff_partial.channel_groups import Axes, Channels
from tff_partial.channel_rules import CLASSES, Axis
from tff_partial.lazy import tf

Kept = Sequence[Any]


def extract(channels: Channels, values: Sequence[Any], kept: Kept) -> list[Any]:
    """The part of each value (one for each variable) that belongs to channels that are kept."""
    return [_extract(channels, v, axes, kept) for v, axes in zip(values, channels.axes)]


def restore(
    channels: Channels, values: Sequence[Any], kept: Kept, classes: Any = None
) -> tuple[list[Any], list[Any]]:
    """Puts the part of each value back to where `extract` took it.

    Args:
      channels: The model's channel groups.
      values: What `extract` returned, or the like.
      kept: The channels.
      classes: 1.0 for each class that counts, else 0.0; all count by default.

    Returns:
      The values in full size, 0 elsewhere; and their weights, 1 where they are and 0 elsewhere,
      of size 1 along axes that are not sliced.
    """
    full = [_restore(channels, v, axes, kept) for v, axes in zip(values, channels.axes)]
    return full, [_weight(channels, axes, kept, classes) for axes in channels.axes]


def _extract(channels: Channels, value: Any, axes: Axes, kept: Kept) -> Any:
    for i, axis in enumerate(axes):
        indices = _indices(channels, axis, kept)
        if indices is not None:
            value = tf.gather(value, indices, axis=i)
    return value


def _restore(channels: Channels, value: Any, axes: Axes, kept: Kept) -> Any:
    for i, axis in enumerate(axes):
        indices = _indices(channels, axis, kept)
        if axis is None or indices is None:
            continue
        # What is left out is read from a slice of zeros at the end.
        count, size = tf.size(indices), axis.repeat * channels.groups[axis.group].size
        places = tf.tensor_scatter_nd_update(
            tf.fill([size], count), indices[:, tf.newaxis], tf.range(count)
        )
        padding = [[0, int(j == i)] for j in range(len(axes))]
        value = tf.gather(tf.pad(value, padding), places, axis=i)
    return value


def _weight(channels: Channels, axes: Axes, kept: Kept, classes: Any) -> Any:
    weight = tf.ones([1] * len(axes))
    for i, axis in enumerate(axes):
        mask = _mask(channels, axis, kept, classes)
        if mask is not None:
            weight *= tf.reshape(mask, [-1 if j == i else 1 for j in range(len(axes))])
    return weight


def _mask(channels: Channels, axis: Optional[Axis], kept: Kept, classes: Any) -> Any:
    """1.0 for what is kept along an axis, else 0.0; None if the axis is not sliced."""
    if axis is None or (axis.group == CLASSES and classes is None):
        return None
    if axis.group == CLASSES:
        return tf.tile(classes, [axis.repeat])
    size = axis.repeat * channels.groups[axis.group].size
    indices = _indices(channels, axis, kept)
    if indices is None:
        return tf.ones([size])
    return tf.tensor_scatter_nd_update(
        tf.zeros([size]), indices[:, tf.newaxis], tf.ones_like(indices, tf.float32)
    )


def _indices(channels: Channels, axis: Optional[Axis], kept: Kept) -> Any:
    """What is kept along an axis; None for everything."""
    if axis is None or axis.group == CLASSES or kept[axis.group] is None:
        return None
    starts = tf.range(axis.repeat) * channels.groups[axis.group].size
    return tf.reshape(starts[:, tf.newaxis] + kept[axis.group], [-1])
