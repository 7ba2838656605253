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

import numpy as np

from tff_partial.core.lazy import tf, tff
from tff_partial.core.model import ModelSpec
from tff_partial.core.types import Array, Tensor

PARTITIONS = ("layer", "channel")
Shape = Sequence[int]


def by_layer(shapes: Sequence[Shape], layers: Sequence[int], count: int) -> list[Array]:
    """Return which of `count` subsets each variable is in; those of a layer are in the same."""
    held = np.zeros(count, np.int64)
    size = collections.Counter[int]()
    for layer, shape in zip(layers, shapes):
        size[layer] += math.prod(shape)
    owner = {}
    for layer, parameters in size.most_common():
        owner[layer] = np.array(np.argmin(held), np.int32)
        held[owner[layer]] += parameters
    return [owner[layer] for layer in layers]


def by_channel(shapes: Sequence[Shape], count: int) -> list[Array]:
    """Return which of `count` subsets each output channel (last axis) of a variable is in."""
    held = np.zeros(count, np.int64)
    owned: list[Array] = [np.zeros(0)] * len(shapes)
    for i in sorted(range(len(shapes)), key=lambda i: -math.prod(shapes[i])):
        lightest = np.argsort(held, kind="stable")
        if not shapes[i]:
            owned[i] = np.array(lightest[0], np.int32)
            held[lightest[0]] += 1
            continue
        size, channels = math.prod(shapes[i]), shapes[i][-1]
        pieces = np.array_split(np.arange(channels), min(count, channels))
        owned[i] = np.zeros(channels, np.int32)
        for subset, piece in zip(lightest, pieces):
            owned[i][piece] = subset
            held[subset] += len(piece) * (size // channels)
    return owned


def sizes(owned: Sequence[Array], shapes: Sequence[Shape], count: int) -> Array:
    """Return the number of parameters in each subset."""
    held = np.zeros(count, np.int64)
    for owner, shape in zip(owned, shapes):
        counts = np.bincount(owner.reshape(-1), minlength=count)
        held += counts * (math.prod(shape) // owner.size)
    return held


class Layout:
    """A model's parameters as one vector, and where its subsets are in it.

    Args:
      shapes: Shapes of the variables.
      owned: The subset of each variable, or of each of its output channels.
      count: Number of subsets.
    """

    def __init__(self, shapes: Sequence[Shape], owned: Sequence[Array], count: int) -> None:
        self._shapes = [tuple(shape) for shape in shapes]
        self._owned = owned
        self.size = sum(math.prod(shape) for shape in self._shapes)
        # What is exchanged at a time has one length, that of the largest subset.
        self.width = int(sizes(owned, shapes, count).max())

    def flatten(self, tensors: Sequence[Tensor]) -> Tensor:
        """Return the variables as one vector."""
        return tf.concat([tf.reshape(tensor, [-1]) for tensor in tensors], 0)

    def split(self, vector: Tensor) -> list[Tensor]:
        """Undo `flatten`."""
        parts = tf.split(vector, [math.prod(shape) for shape in self._shapes])
        return [tf.reshape(part, shape) for part, shape in zip(parts, self._shapes)]

    def select(self, vector: Tensor, subset: Tensor) -> Tensor:
        """Return the parameters of a subset, [width]; filled up with zeros."""
        return tf.gather(tf.concat([vector, [0.0]], 0), self._places(subset))

    def replace(self, vector: Tensor, subset: Tensor, values: Tensor) -> Tensor:
        """Return the vector with the parameters of a subset replaced; nothing for subset -1."""
        filled = tf.concat([vector, [0.0]], 0)
        places = self._places(subset)[:, tf.newaxis]
        return tf.tensor_scatter_nd_update(filled, places, values)[: self.size]

    def _places(self, subset: Tensor) -> Tensor:
        """Return a subset's indices, filled up with that of the element after the last."""
        whole = [
            tf.reshape(tf.broadcast_to(tf.constant(owner), shape), [-1])
            for owner, shape in zip(self._owned, self._shapes)
        ]
        places = tf.where(tf.equal(tf.concat(whole, 0), subset))[:, 0]
        missing = tf.fill([self.width - tf.shape(places)[0]], tf.constant(self.size, tf.int64))
        return tf.ensure_shape(tf.concat([places, missing], 0), [self.width])


def shapes_of(model: ModelSpec) -> list[tuple[int, ...]]:
    """Return the shapes of the trainable variables."""
    return [tuple(leaf.shape) for leaf in tff.structure.flatten(model.weights_type.trainable)]


def layers_of(model: ModelSpec) -> list[int]:
    """Return for each trainable variable the number of the layer that it belongs to."""
    with tf.Graph().as_default():
        built = model.instantiate()
        layers = [x for b in built.blocks for x in b._flatten_layers()]
        owner = {id(v): i for i, x in enumerate(layers) for v in x._trainable_weights}
        return [owner[id(v)] for v in built.trainable]


def create(model: ModelSpec, partition: str, count: int) -> Layout:
    """Return so many subsets of a model's parameters."""
    shapes = shapes_of(model)
    if partition == "layer":
        return Layout(shapes, by_layer(shapes, layers_of(model), count), count)
    return Layout(shapes, by_channel(shapes, count), count)


def whole_model(model: ModelSpec) -> Layout:
    """Return one subset that holds everything."""
    return create(model, "layer", 1)


def flatten_floats(tensors: Sequence[Tensor]) -> Tensor:
    """Return the float tensors as one vector."""
    flat = [tf.reshape(tensor, [-1]) for tensor in tensors if tensor.dtype.is_floating]
    return tf.concat(flat, 0) if flat else tf.zeros([0])


def split_floats(vector: Tensor, like: Sequence[Tensor]) -> list[Tensor]:
    """Undo `flatten_floats`; tensors that are not float are those of `like`."""
    sizes = [math.prod(tensor.shape) for tensor in like if tensor.dtype.is_floating]
    pieces = iter(tf.split(vector, sizes) if sizes else [])
    return [tf.reshape(next(pieces), t.shape) if t.dtype.is_floating else t for t in like]
