"""What happens to the owners of a tensor's axes when it is moved around: pure index arithmetic.

Layers such as Concatenate, Permute and Reshape, and the operations of the same names, use the same
functions. Where channels cannot be followed they raise `NotFollowed`, with the reason.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Optional

import numpy as np

from tff_partial.submodels.neurons import Labels, Neurons, Owners

Shape = Sequence[Optional[int]]


class NotFollowed(Exception):
    """Says why channels cannot be followed; the analysis adds the layer's name."""


def is_free(labels: Labels) -> bool:
    """Return whether every axis is always kept."""
    return all(owners is None for owners in labels)


def none(rank: Optional[int]) -> Labels:
    """Return the labels of a tensor without channels."""
    return (None,) * (rank or 0)


def cleaned(owners: Optional[Owners]) -> Optional[Owners]:
    """Return None for an axis whose positions all belong to no neuron."""
    return owners if owners is not None and owners.any() else None


def join(neurons: Neurons, axes: Sequence[Optional[Owners]]) -> Optional[Owners]:
    """Keep what stands at the same position together; return the axis."""
    known = [owners for owners in axes if owners is not None]
    if not known:
        return None
    if len({len(owners) for owners in known}) > 1:
        raise NotFollowed("it combines different numbers of channels")
    for owners in known[1:]:
        neurons.join(known[0], owners)
    if len(known) < len(axes):
        neurons.keep(known[0])
    return known[0]


def broadcast(neurons: Neurons, operands: Sequence[tuple[Labels, Shape]], rank: int) -> Labels:
    """Return the labels of an elementwise operation; axes of size 1 are repeated."""

    def along(axis: int) -> Optional[Owners]:
        places = [(x, shape, axis - rank + len(shape)) for x, shape in operands]
        there = [(x[i], shape[i]) for x, shape, i in places if i >= 0]
        # If all are of size 1, none is repeated.
        wide = [owners for owners, size in there if size != 1] or [owners for owners, _ in there]
        return join(neurons, wide)

    return tuple(along(axis) for axis in range(rank))


def concat(
    neurons: Neurons, operands: Sequence[tuple[Labels, Shape]], axis: int, rank: int
) -> Labels:
    """Return the labels of a concatenation: along its axis the owners follow each other."""
    axis %= rank
    result = [
        join(neurons, [labels[i] for labels, _ in operands]) if i != axis else None
        for i in range(rank)
    ]
    parts = [(labels[axis], shape[axis]) for labels, shape in operands]
    if any(owners is not None for owners, _ in parts):
        if any(owners is None and size is None for owners, size in parts):
            raise NotFollowed("it concatenates channels with something of unknown size")
        sides = [np.zeros(n or 0, int) if owners is None else owners for owners, n in parts]
        result[axis] = np.concatenate(sides)
    return tuple(result)


def transpose(labels: Labels, order: Sequence[int]) -> Labels:
    """Return the labels of a tensor whose axes are put into this order."""
    return tuple(labels[i] for i in order)


def reduce(labels: Labels, axes: Sequence[int], keep: bool) -> Labels:
    """Return the labels of a mean, sum or the like over axes that must be always kept."""
    reduced = {axis % len(labels) for axis in axes}
    if any(labels[axis] is not None for axis in reduced):
        raise NotFollowed("it combines all channels into one number")
    return tuple(x for i, x in enumerate(labels) if keep or i not in reduced)


def reshape(neurons: Neurons, labels: Labels, before: Shape, after: Shape) -> Labels:
    """Return the labels of a tensor whose elements, in their order, get another shape.

    A channel axis may be repeated (flatten) or divided; if it is divided, channels are the last of
    the new axes, and those at the same place of it are kept together.
    """
    if is_free(labels):
        return none(len(after))
    labelled = [i for i, owners in enumerate(labels) if owners is not None]
    if list(before[1:]) == list(after[1:]):
        return (None, *labels[1:])
    if labelled == [len(before) - 1] and before[-1] == after[-1]:
        return (*none(len(after) - 1), labels[-1])
    if len(labelled) > 1:
        raise NotFollowed("it reshapes a tensor with channels along two axes")
    return _divided(neurons, _spread(labels, before, after, labelled[0]))


def _spread(labels: Labels, before: Shape, after: Shape, labelled: int) -> Owners:
    """Return the owner of every element, in the new shape; batches are of one example."""
    old, new = [1, *_known(before[1:])], _known(after[1:])
    total, rest = math.prod(old), math.prod(new)
    if rest == 0 or total % rest:
        raise NotFollowed("it moves channels into the batch")
    view = [-1 if i == labelled else 1 for i in range(len(old))]
    owners = np.broadcast_to(np.reshape(np.asarray(labels[labelled]), view), old)
    return owners.reshape([total // rest, *new])


def _known(shape: Shape) -> list[int]:
    known = [size for size in shape if size is not None]
    if len(known) < len(shape):
        raise NotFollowed("it must reshape inputs of a known size")
    return known


def _divided(neurons: Neurons, owners: Owners) -> Labels:
    """Return the labels of a tensor, given the owner of each element."""
    for axis in reversed(range(owners.ndim)):
        along = np.moveaxis(owners, axis, -1).reshape(-1, owners.shape[axis])
        if (along == along[0]).all():
            return tuple(along[0] if i == axis else None for i in range(owners.ndim))
    if owners.shape[-1] == 1 or owners.shape[0] > 1:
        raise NotFollowed("it reshapes channels into several axes")
    rows = owners.reshape(-1, owners.shape[-1])
    for row in rows[1:]:
        neurons.join(rows[0], row)
    return (*none(owners.ndim - 1), rows[0])
