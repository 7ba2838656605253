"""Divides the parameters of a model into subsets of about the same size, each parameter in one.

| partition | a subset holds                           |
|-----------|------------------------------------------|
| `layer`   | whole layers, kernel and bias together   |
| `channel` | some output channels of every variable   |

Greedy: the largest layer (variable) first, to the subset (its channels: to the subsets) that holds
least so far. With more subsets than there is to divide some are empty.
"""

from __future__ import annotations

import collections
import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from tff_partial.core.lazy import tf

PARTITIONS = ("layer", "channel")
Shape = Sequence[int]


def check(partition: str) -> None:
    """Raise a ValueError unless it is one of `PARTITIONS`."""
    if partition not in PARTITIONS:
        raise ValueError(
            f"partition must be one of {PARTITIONS}. Received: partition={partition!r}"
        )


def by_layer(shapes: Sequence[Shape], layers: Sequence[int], count: int) -> list[np.ndarray]:
    """Return the subset of each variable; those of a layer are in the same.

    Args:
      shapes: Of the variables.
      layers: The layer of each variable.
      count: Number of subsets.
    """
    held = np.zeros(count, np.int64)
    size = collections.Counter[int]()
    for layer, shape in zip(layers, shapes):
        size[layer] += math.prod(shape)
    owner = {}
    for layer, of_layer in size.most_common():
        owner[layer] = np.array(np.argmin(held), np.int32)
        held[owner[layer]] += of_layer
    return [owner[layer] for layer in layers]


def by_channel(shapes: Sequence[Shape], count: int) -> list[np.ndarray]:
    """Return for each variable the subset of each of its output channels (its last axis).

    Args:
      shapes: Of the variables.
      count: Number of subsets.
    """
    held = np.zeros(count, np.int64)
    found: list[Any] = [None] * len(shapes)
    for i in sorted(range(len(shapes)), key=lambda i: -math.prod(shapes[i])):
        lightest = np.argsort(held, kind="stable")
        if not shapes[i]:
            found[i] = np.array(lightest[0], np.int32)
            held[lightest[0]] += 1
            continue
        size, channels = math.prod(shapes[i]), shapes[i][-1]
        pieces = np.array_split(np.arange(channels), min(count, channels))
        found[i] = np.zeros(channels, np.int32)
        for subset, piece in zip(lightest, pieces):
            found[i][piece] = subset
            held[subset] += len(piece) * (size // channels)
    return found


def sizes(owned: Sequence[np.ndarray], shapes: Sequence[Shape], count: int) -> np.ndarray:
    """Number of parameters in each subset."""
    held = np.zeros(count, np.int64)
    for owner, shape in zip(owned, shapes):
        counts = np.bincount(owner.reshape(-1), minlength=count)
        held += counts * (math.prod(shape) // owner.size)
    return held


class Layout:
    """A model's parameters as one vector, and where its subsets are in it.

    Args:
      shapes: Of the variables.
      owned: The subset of each variable, or of each of its output channels.
      count: Number of subsets.
    """

    def __init__(self, shapes: Sequence[Shape], owned: Sequence[np.ndarray], count: int) -> None:
        self._shapes = [tuple(shape) for shape in shapes]
        self._owned = owned
        self.count = count
        self.size = sum(math.prod(shape) for shape in self._shapes)
        # What is exchanged at a time has one length, that of the largest subset.
        self.width = int(sizes(owned, shapes, count).max())

    def flatten(self, tensors: Sequence[Any]) -> Any:
        """The variables as one vector."""
        return tf.concat([tf.reshape(tensor, [-1]) for tensor in tensors], 0)

    def split(self, vector: Any) -> list[Any]:
        """The opposite of `flatten`."""
        parts = tf.split(vector, [math.prod(shape) for shape in self._shapes])
        return [tf.reshape(part, shape) for part, shape in zip(parts, self._shapes)]

    def select(self, vector: Any, subset: Any) -> Any:
        """The parameters of a subset, [width]; filled up with zeros."""
        return tf.gather(tf.concat([vector, [0.0]], 0), self._places(subset))

    def replace(self, vector: Any, subset: Any, values: Any) -> Any:
        """The vector with the parameters of a subset replaced; nothing for subset -1."""
        filled = tf.concat([vector, [0.0]], 0)
        places = self._places(subset)[:, tf.newaxis]
        return tf.tensor_scatter_nd_update(filled, places, values)[: self.size]

    def _places(self, subset: Any) -> Any:
        """Indices of a subset's parameters, filled up with that of the element after the last."""
        whole = [
            tf.reshape(tf.broadcast_to(tf.constant(owner), shape), [-1])
            for owner, shape in zip(self._owned, self._shapes)
        ]
        found = tf.where(tf.equal(tf.concat(whole, 0), subset))[:, 0]
        missing = tf.fill([self.width - tf.shape(found)[0]], tf.constant(self.size, tf.int64))
        return tf.ensure_shape(tf.concat([found, missing], 0), [self.width])
