"""Which examples a client holds."""

from __future__ import annotations

import time
import tracemalloc

import numpy as np

from tasks import assignment, partition
from tests.tasks.examples import LABELS


def test_a_million_clients_cost_nothing() -> None:
    tracemalloc.start()
    start = time.perf_counter()
    parts = partition.create("bootstrap:20", LABELS, 1_000_000, 0)
    chosen = [parts[client] for client in range(0, 1_000_000, 10_000)]
    seconds, (_, peak) = time.perf_counter() - start, tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert len(parts) == 1_000_000
    assert parts.sizes[999_999] == len(parts[999_999]) == 20
    assert len({tuple(indices) for indices in chosen}) == 100
    assert peak < 1e6
    assert seconds < 5


def test_a_million_iid_clients_are_one_order_and_offsets() -> None:
    tracemalloc.start()
    parts = partition.create("iid", np.zeros(2_000_000, np.int8), 1_000_000, 0)
    assert len(parts[123_456]) == 2
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert peak < 80e6


def test_clients_hold_pieces_of_one_order() -> None:
    parts = assignment.contiguous(np.array([5, 3, 0, 4, 1]), np.array([2, 0, 3]))
    assert [indices.tolist() for indices in parts] == [[5, 3], [], [0, 4, 1]]
    assert len(parts) == 3


def test_owners_get_their_examples_in_random_order() -> None:
    owners = np.array([1, 0, -1, 1, 1, 0, 1])
    parts = assignment.from_owners(owners, 3, np.random.default_rng(0))
    assert [sorted(indices) for indices in parts] == [[1, 5], [0, 3, 4, 6], []]
    assert list(parts.sizes) == [2, 4, 0]
    orders = {
        tuple(assignment.from_owners(owners, 3, np.random.default_rng(seed))[1])
        for seed in range(20)
    }
    assert len(orders) > 5


def test_counts_say_how_many_of_each_class() -> None:
    labels = np.arange(30) % 3
    counts = np.array([[2, 5], [0, 10], [1, 0]])
    parts = assignment.from_counts(labels, counts, np.random.default_rng(0))
    held = np.stack([np.bincount(labels[indices], minlength=3) for indices in parts], axis=1)
    np.testing.assert_array_equal(held, counts)
    assert len(np.unique(np.concatenate(list(parts)))) == counts.sum()
