"""Which examples a client holds: one order of the examples and offsets in it, or nothing at all."""

from __future__ import annotations

from typing import Callable

import numpy as np


class Partition:
    """The examples of each client: `partition[client]` is an array of `sizes[client]` indices."""

    def __init__(self, sizes: np.ndarray, indices_of: Callable[[int], np.ndarray]) -> None:
        self.sizes, self._indices_of = sizes, indices_of

    def __len__(self) -> int:
        return len(self.sizes)

    def __getitem__(self, client: int) -> np.ndarray:
        if not 0 <= client < len(self):
            raise IndexError(f"client must be in [0, {len(self)}). Received: client={client}")
        return self._indices_of(client)


def contiguous(order: np.ndarray, sizes: np.ndarray) -> Partition:
    """Give client k the examples `order[offsets[k]:offsets[k + 1]]`."""
    offsets = np.concatenate([[0], np.cumsum(sizes)])
    return Partition(sizes, lambda client: order[offsets[client] : offsets[client + 1]])


def from_counts(labels: np.ndarray, counts: np.ndarray, rng: np.random.Generator) -> Partition:
    """Deal out random examples, as many of each class as `counts` [class, client] says."""
    owners = np.full(len(labels), -1)
    for label, row in enumerate(counts):
        pool = rng.permutation(np.flatnonzero(labels == label))
        owners[pool[: row.sum()]] = np.repeat(np.arange(len(row)), row)
    return from_owners(owners, counts.shape[1], rng)


def from_owners(owners: np.ndarray, clients: int, rng: np.random.Generator) -> Partition:
    """Return the partition by each example's owner (-1: nobody), examples in random order."""
    order = rng.permutation(np.flatnonzero(owners >= 0))
    order = order[np.argsort(owners[order], kind="stable")]
    return contiguous(order, np.bincount(owners[order], minlength=clients))
