"""Which examples a client holds: one order of the examples and offsets in it, or nothing at all."""

from __future__ import annotations

import abc

import numpy as np


class Partition(abc.ABC):
    """The examples of each client: `partition[client]` is an array of indices."""

    def __init__(self, sizes: np.ndarray) -> None:
        self.sizes = sizes

    def __len__(self) -> int:
        return len(self.sizes)

    def __getitem__(self, client: int) -> np.ndarray:
        if not 0 <= client < len(self):
            raise IndexError(f"client must be in [0, {len(self)}). Received: client={client}")
        return self._indices(client)

    @abc.abstractmethod
    def _indices(self, client: int) -> np.ndarray: ...


class Contiguous(Partition):
    """Client k holds `order[offsets[k]:offsets[k + 1]]`."""

    def __init__(self, order: np.ndarray, sizes: np.ndarray) -> None:
        super().__init__(sizes)
        self._order = order
        self._offsets = np.concatenate([[0], np.cumsum(sizes)])

    def _indices(self, client: int) -> np.ndarray:
        return self._order[self._offsets[client] : self._offsets[client + 1]]


class Bootstrap(Partition):
    """Client k holds `size` examples drawn with replacement, a pure function of (seed, k)."""

    def __init__(self, examples: int, size: int, clients: int, seed: int) -> None:
        super().__init__(np.broadcast_to(np.int64(size), (clients,)))
        self._examples, self._size, self._seed = examples, size, seed

    def _indices(self, client: int) -> np.ndarray:
        return np.random.default_rng([self._seed, client]).integers(self._examples, size=self._size)


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
    return Contiguous(order, np.bincount(owners[order], minlength=clients))
