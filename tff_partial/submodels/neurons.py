"""Neurons, numbered, and to which of them each position along an axis of a tensor belongs.

`Owners` of an axis are the numbers of the neurons along it: a concatenation's are one list after
the other, a flatten repeats them, a depth multiplier repeats each. The number 0 is that of no
neuron and stands for what is always kept. Neurons that can only be kept together are joined, and a
*channel* is what has become one. Channels form a *group* if they stand along the same axes, equally
often: whichever k of a group are kept, the shapes are the same.
"""

from __future__ import annotations

import dataclasses
import functools
from collections.abc import Iterable, Sequence
from typing import Optional

import numpy as np

from tff_partial.core.types import Array

ALWAYS, CLASSES = -2, -1  # groups of what is always kept, and of the logits

Owners = Array
"""Number of the neuron of each position along an axis, int [size]; 0 for none."""

Labels = tuple[Optional[Owners], ...]
"""The owners along each axis of a tensor; None for an axis that is always kept."""


class Neurons:
    """Numbers neurons and remembers which are joined."""

    def __init__(self) -> None:
        self._count = 1
        self._pairs: list[tuple[Owners, Owners]] = []
        self._whole = {0}

    def new(self, size: int) -> Owners:
        """Return so many new neurons."""
        self._count += size
        return np.arange(self._count - size, self._count)

    def join(self, first: Owners, second: Owners) -> None:
        """Keep the neurons at each position together; what meets no neuron is always kept."""
        free = (first == 0) | (second == 0)
        self._pairs.append((first[~free], second[~free]))
        self.keep(first[free])
        self.keep(second[free])

    def keep(self, owners: Owners) -> None:
        """Keep these neurons always."""
        self._whole.update(owners.tolist())

    def without_kept(self, labels: Labels) -> Labels:
        """Return None for axes of which all neurons are always kept already."""
        return tuple(x if x is None or {*x.tolist()} - self._whole else None for x in labels)

    def roots(self) -> tuple[Array, Array]:
        """Return the smallest neuron that each one is joined with, and those always kept."""
        nobody = np.zeros(0, int)
        first, second = (np.concatenate(side) for side in zip((nobody, nobody), *self._pairs))
        roots, before = np.arange(self._count), None
        while before is None or (roots != before).any():
            before = roots.copy()
            smaller = np.minimum(roots[first], roots[second])
            for side in (first, second):
                np.minimum.at(roots, before[side], smaller)
            roots = roots[roots]
        return roots, np.unique(roots[sorted(self._whole)])


@dataclasses.dataclass(frozen=True, eq=False)
class Axis:
    """An axis of a tensor: the group and the channel of each position along it.

    Attributes:
      group: Number of the group, `CLASSES` or `ALWAYS`, int [size].
      channel: Number of the channel within the group, int [size].
    """

    group: Array
    channel: Array

    @functools.cached_property
    def repeats(self) -> dict[int, int]:
        """How often each channel of a group stands along the axis."""
        numbers = np.unique(self.group[self.group >= 0]).tolist()
        firsts = self.channel == 0
        return {g: int(np.sum(firsts & (self.group == g))) for g in numbers}

    @property
    def size(self) -> int:
        return len(self.group)

    def kept(self, sizes: Sequence[int]) -> int:
        """Return the length of the axis if so many channels are kept of each group."""
        fixed = int(np.sum(self.group < 0))
        return fixed + sum(count * sizes[g] for g, count in self.repeats.items())

    def first(self, sizes: Sequence[int]) -> Axis:
        """Return the axis of a model that has the first so many channels of each group."""
        limits = np.array([*sizes, 1 << 30, 1 << 30])  # the groups -2 and -1 are the last two
        chosen = self.channel < limits[self.group]
        return Axis(self.group[chosen], self.channel[chosen])


class Grouping:
    """Divides neurons into groups of channels."""

    def __init__(self, neurons: Neurons, axes: Iterable[Owners], classes: Optional[Owners]) -> None:
        self._roots, whole = neurons.roots()
        size = len(self._roots)
        self._group, self._channel = np.full(size, ALWAYS), np.zeros(size, int)
        free = np.ones(size, bool)
        free[whole] = False
        if classes is not None:
            logits = self._roots[classes]
            self._group[logits[logits > 0]] = CLASSES
            self._channel[logits[::-1]] = np.arange(len(logits))[::-1]
            free[logits] = False
        self.members = self._divide(axes, free)
        for number, roots in enumerate(self.members):
            self._group[roots], self._channel[roots] = number, np.arange(len(roots))
        self._axes: dict[bytes, Axis] = {}

    def _divide(self, axes: Iterable[Owners], free: Array) -> list[list[int]]:
        """Return the neurons that stand for the channels of each group."""
        distinct = {owners.tobytes(): owners for owners in axes}
        places: dict[int, list[tuple[int, int]]] = {}
        for i, owners in enumerate(distinct.values()):
            for root, count in zip(*np.unique(self._roots[owners], return_counts=True)):
                if free[root]:
                    places.setdefault(int(root), []).append((i, int(count)))
        groups: dict[tuple[tuple[int, int], ...], list[int]] = {}
        for root in sorted(places):
            groups.setdefault(tuple(places[root]), []).append(root)
        return list(groups.values())

    def axis(self, owners: Optional[Owners]) -> Optional[Axis]:
        """Return the axis with these owners, the same for the same ones; None if always kept."""
        if owners is None:
            return None
        roots = self._roots[owners]
        group = self._group[roots]
        if (group == ALWAYS).all():
            return None
        return self._axes.setdefault(roots.tobytes(), Axis(group, self._channel[roots]))

    def groups_of(self, owners: Owners) -> list[int]:
        """Return the numbers of the groups that have some of these neurons."""
        numbers = np.unique(self._group[self._roots[owners]])
        return [int(number) for number in numbers if number >= 0]
