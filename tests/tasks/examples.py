"""4,000 examples of ten classes and 60 writers, dealt out to clients."""

from __future__ import annotations

import numpy as np

from tasks import partition
from tasks.assignment import Partition

LABELS = np.random.default_rng(0).permutation(np.arange(4000) % 10)
WRITERS = np.random.default_rng(1).integers(0, 60, 4000)


def create_partition(
    text: str, clients: int = 20, seed: int = 0, labels: np.ndarray = LABELS
) -> Partition:
    return partition.create(text, labels, clients, seed, writers=WRITERS)


def count_classes(text: str, clients: int = 20, labels: np.ndarray = LABELS) -> np.ndarray:
    """Examples [client, class]."""
    parts = create_partition(text, clients, labels=labels)
    return np.stack([np.bincount(labels[indices], minlength=10) for indices in parts])
