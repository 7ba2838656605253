"""The partition rules: disjointness, coverage, sizes, label shares, determinism, errors."""

from __future__ import annotations

import time
import tracemalloc

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tasks import partition
from tasks.assignment import Partition

_LABELS = np.random.default_rng(0).permutation(np.arange(4000) % 10)
_WRITERS = np.random.default_rng(1).integers(0, 60, 4000)
# The rule, and how many of 4,000 examples 20 clients use.
_RULES = {
    "iid": 4000,
    "iid:50": 1000,
    "unbalanced": 4000,
    "unbalanced:1.5": 4000,
    "dirichlet:0.5": 4000,
    "dirichlet:0.1,fill": 4000,
    "dirichlet_per_client:0.3": 4000,
    "classes:2": 4000,
    "classes:3": 4000,
    "classes:2,100": 2000,
    "natural": None,
    "natural:3": 4000,
}


def _create(text: str, clients: int = 20, seed: int = 0, labels: np.ndarray = _LABELS) -> Partition:
    return partition.create(text, labels, clients, seed, writers=_WRITERS)


def _shares(text: str, clients: int = 20, labels: np.ndarray = _LABELS) -> np.ndarray:
    """Examples [client, class]."""
    parts = _create(text, clients, labels=labels)
    return np.stack([np.bincount(labels[indices], minlength=10) for indices in parts])


@pytest.mark.parametrize("text", _RULES)
def test_clients_are_disjoint_and_cover_what_the_rule_says(text: str) -> None:
    parts = _create(text)
    used = np.concatenate(list(parts))
    assert len(parts) == 20
    assert len(np.unique(used)) == len(used)
    assert _RULES[text] in (None, len(used))
    assert [len(indices) for indices in parts] == list(parts.sizes)
    assert min(parts.sizes) >= 1


@pytest.mark.parametrize("text", [*_RULES, "bootstrap:30"])
def test_a_partition_is_a_function_of_the_seed(text: str) -> None:
    one, same, other = _create(text), _create(text), _create(text, seed=1)
    assert all(np.array_equal(a, b) for a, b in zip(one, same))
    assert not all(np.array_equal(a, b) for a, b in zip(one, other))


@given(
    labels=st.lists(st.integers(0, 4), min_size=1, max_size=120),
    clients=st.integers(1, 12),
    text=st.sampled_from(
        ["iid", "unbalanced:1", "dirichlet:1,fill", "dirichlet_per_client:0.05", "classes:1"]
    ),
    seed=st.integers(0, 5),
)
@settings(deadline=None, max_examples=150)
def test_any_labels_give_disjoint_clients_or_an_error(
    labels: list[int], clients: int, text: str, seed: int
) -> None:
    try:
        parts = partition.create(text, np.array(labels), clients, seed)
    except ValueError:
        assert clients > 1 or text.startswith("dirichlet:")
        return
    used = np.concatenate(list(parts))
    assert len(np.unique(used)) == len(used) <= len(labels)
    assert len(parts) == clients
    assert min(parts.sizes) >= 1


def test_iid_sizes_differ_by_one_and_labels_are_mixed() -> None:
    parts = _create("iid", clients=7)
    assert max(parts.sizes) - min(parts.sizes) == 1
    assert np.all(np.abs(_shares("iid") - 20) < 20)


def test_unbalanced_sizes_are_log_normal() -> None:
    labels = np.zeros(100_000, int)
    logs = np.log(partition.create("unbalanced", labels, 1000, 0).sizes)
    assert np.std(logs) == pytest.approx(0.3, abs=0.03)
    assert np.std(np.log(partition.create("unbalanced:1", labels, 1000, 0).sizes)) > 0.8


def test_dirichlet_is_skewed_and_leaves_everybody_ten() -> None:
    labels = np.arange(50_000) % 10
    skewed = _shares("dirichlet:0.1", clients=64, labels=labels)
    even = _shares("dirichlet:100", clients=64, labels=labels)
    assert skewed.sum(axis=1).min() >= 10
    assert np.median(skewed.max(axis=1) / skewed.sum(axis=1)) > 0.5
    assert np.max(even.max(axis=1) / even.sum(axis=1)) < 0.2


def test_dirichlet_clients_with_their_share_receive_no_more() -> None:
    labels = np.arange(10_000) % 10
    shares = _shares("dirichlet:0.1,fill", clients=10, labels=labels)
    before = np.cumsum(shares, axis=1) - shares
    assert not np.any((before >= 1000) & (shares > 0))


def test_dirichlet_fill_tops_up_to_ten() -> None:
    labels = np.arange(25_000) % 2
    with pytest.raises(ValueError, match=r"no draw of 2000 did: .* dirichlet:0\.1,fill\. Received"):
        partition.create("dirichlet:0.1", labels, 128, 0)
    parts = partition.create("dirichlet:0.1,fill", labels, 128, 0)
    assert min(parts.sizes) == 10
    assert sum(parts.sizes) == 25_000


def test_dirichlet_per_client_has_equal_sizes_and_skewed_classes() -> None:
    labels = np.arange(10_003) % 10
    shares = _shares("dirichlet_per_client:0.3", clients=20, labels=labels)
    assert set(shares.sum(axis=1)) == {500}
    assert np.median(shares.max(axis=1)) > 150
    assert np.all(shares.sum(axis=0) <= np.bincount(labels))


def test_dirichlet_per_client_follows_its_prior_while_classes_last() -> None:
    labels = np.repeat(np.arange(4), 50_000)
    parts = partition.create("dirichlet_per_client:1000", labels, 100, 0)
    shares = np.stack([np.bincount(labels[p], minlength=4) for p in parts])
    assert np.all(np.abs(shares - 500) < 110)


@pytest.mark.parametrize("per_client", [1, 2, 5, 10])
def test_classes_are_balanced(per_client: int) -> None:
    shares = _shares(f"classes:{per_client}")
    assert set((shares > 0).sum(axis=1)) == {per_client}
    assert np.ptp((shares > 0).sum(axis=0)) <= 1
    assert set(shares.sum(axis=1)) == {200}
    assert set(shares[shares > 0]) == {200 // per_client}


def test_classes_of_a_given_size() -> None:
    labels = np.repeat(np.arange(3), [500, 600, 900])
    shares = _shares("classes:2,40", clients=9, labels=labels)
    assert set(shares.sum(axis=1)) == {40}
    assert set(shares[shares > 0]) == {20}


def test_natural_clients_are_whole_writers() -> None:
    parts = _create("natural:2", clients=30)
    held = [set(_WRITERS[indices]) for indices in parts]
    assert all(len(writers) == 2 for writers in held)
    assert len(set.union(*held)) == 60
    assert list(parts.sizes) == [np.isin(_WRITERS, list(writers)).sum() for writers in held]


def test_a_million_clients_cost_nothing() -> None:
    tracemalloc.start()
    start = time.perf_counter()
    parts = partition.create("bootstrap:20", _LABELS, 1_000_000, 0)
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


@pytest.mark.parametrize(
    ("text", "clients", "message"),
    [
        ("nothing", 2, "partition must be one of iid, .*. Received: partition=nothing"),
        ("iid:0", 2, "must read iid or iid:SIZE .*at most 1,000,000.*Received: partition=iid:0"),
        ("iid:1,2", 2, "partition must read iid"),
        ("dirichlet", 2, "partition must read dirichlet:ALPHA .*Received: partition=dirichlet"),
        ("dirichlet:-1", 2, "partition must read dirichlet:ALPHA"),
        ("dirichlet:nan", 2, "partition must read dirichlet:ALPHA"),
        ("dirichlet:1e-300", 2, "partition must read dirichlet:ALPHA .*at least 0.0001"),
        ("dirichlet:1e-300,fill", 2, "partition must read dirichlet:ALPHA"),
        ("dirichlet_per_client:1e-9", 2, "must read dirichlet_per_client:ALPHA .*at least 0.0001"),
        ("dirichlet:0.0001,fill", 100, None),
        ("dirichlet_per_client:0.0001", 100, None),
        ("dirichlet:1e100", 100, None),
        ("unbalanced:100", 100, None),
        ("unbalanced:1e300", 2, "must read unbalanced or unbalanced:SIGMA .*at most 100"),
        ("bootstrap:100000000000", 2, "partition must read bootstrap:SIZE .*at most 1,000,000"),
        ("synthetic:1e300,1", 2, "partition must read synthetic:ALPHA,BETA .*from 0 to 100"),
        ("dirichlet:1,filled", 2, "partition must read dirichlet:ALPHA"),
        ("classes:1.5", 2, "partition must read classes:L"),
        ("classes:11", 2, "at most 10 classes .* Received: L=11, SIZE=None"),
        ("classes:2,101", 2, "a SIZE that L divides. Received: L=2, SIZE=101"),
        ("classes:1,400", 2, None),
        ("classes:1,401", 2, "classes must find 401 examples .* share has 400"),
        ("iid", 0, "clients must be positive. Received: clients=0"),
        ("iid", 4001, "clients must be at most 4000 for 4000 examples.*Received: clients=4001"),
        ("dirichlet:1", 401, "clients must be at most 400 "),
        ("natural:2", 31, "clients must be at most 30 for 60 writers, 2 a client"),
        ("synthetic:1,1", 2, "only tasks that are generated take it"),
        ("synthetic:1", 2, "partition must read synthetic:ALPHA,BETA"),
    ],
)
def test_errors_are_one_line(text: str, clients: int, message: str | None) -> None:
    if message is None:
        _create(text, clients)
        return
    with pytest.raises(ValueError, match=message) as caught:
        _create(text, clients)
    assert "\n" not in str(caught.value)


def test_natural_needs_writers_and_clients_have_bounds() -> None:
    with pytest.raises(ValueError, match="must not be natural for data without writers"):
        partition.create("natural", _LABELS, 2, 0)
    with pytest.raises(IndexError, match=r"client must be in \[0, 20\). Received: client=20"):
        _create("iid")[20]
