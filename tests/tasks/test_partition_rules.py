"""The partition rules: sizes and label shares."""

from __future__ import annotations

import numpy as np
import pytest

from tasks import partition
from tests.tasks.examples import WRITERS, count_classes, create_partition


def test_iid_sizes_differ_by_one_and_labels_are_mixed() -> None:
    parts = create_partition("iid", clients=7)
    assert max(parts.sizes) - min(parts.sizes) == 1
    assert np.all(np.abs(count_classes("iid") - 20) < 20)


def test_unbalanced_sizes_are_log_normal() -> None:
    labels = np.zeros(100_000, int)
    logs = np.log(partition.create("unbalanced", labels, 1000, 0).sizes)
    assert np.std(logs) == pytest.approx(0.3, abs=0.03)
    assert np.std(np.log(partition.create("unbalanced:1", labels, 1000, 0).sizes)) > 0.8


def test_dirichlet_is_skewed_and_leaves_everybody_ten() -> None:
    labels = np.arange(50_000) % 10
    skewed = count_classes("dirichlet:0.1", clients=64, labels=labels)
    even = count_classes("dirichlet:100", clients=64, labels=labels)
    assert skewed.sum(axis=1).min() >= 10
    assert np.median(skewed.max(axis=1) / skewed.sum(axis=1)) > 0.5
    assert np.max(even.max(axis=1) / even.sum(axis=1)) < 0.2


def test_dirichlet_clients_with_their_share_receive_no_more() -> None:
    labels = np.arange(10_000) % 10
    shares = count_classes("dirichlet:0.1,fill", clients=10, labels=labels)
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
    shares = count_classes("dirichlet_per_client:0.3", clients=20, labels=labels)
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
    shares = count_classes(f"classes:{per_client}")
    assert set((shares > 0).sum(axis=1)) == {per_client}
    assert np.ptp((shares > 0).sum(axis=0)) <= 1
    assert set(shares.sum(axis=1)) == {200}
    assert set(shares[shares > 0]) == {200 // per_client}


def test_classes_of_a_given_size() -> None:
    labels = np.repeat(np.arange(3), [500, 600, 900])
    shares = count_classes("classes:2,40", clients=9, labels=labels)
    assert set(shares.sum(axis=1)) == {40}
    assert set(shares[shares > 0]) == {20}


def test_natural_clients_are_whole_writers() -> None:
    parts = create_partition("natural:2", clients=30)
    held = [set(WRITERS[indices]) for indices in parts]
    assert all(len(writers) == 2 for writers in held)
    assert len(set.union(*held)) == 60
    assert list(parts.sizes) == [np.isin(WRITERS, list(writers)).sum() for writers in held]
