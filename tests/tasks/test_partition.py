"""Partitions as text: disjointness, coverage, determinism, errors."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tasks import partition
from tests.tasks.examples import LABELS, create_partition

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
    "ids:file.npy,3": 4000,
}


@pytest.mark.parametrize("text", _RULES)
def test_clients_are_disjoint_and_cover_what_the_rule_says(text: str) -> None:
    parts = create_partition(text)
    used = np.concatenate(list(parts))
    assert len(parts) == 20
    assert len(np.unique(used)) == len(used)
    assert _RULES[text] in (None, len(used))
    assert [len(indices) for indices in parts] == list(parts.sizes)
    assert min(parts.sizes) >= 1


@pytest.mark.parametrize("text", [*_RULES, "bootstrap:30"])
def test_a_partition_is_a_function_of_the_seed(text: str) -> None:
    one, same, other = (
        create_partition(text),
        create_partition(text),
        create_partition(text, seed=1),
    )
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
        ("ids:file.npy,2", 31, "clients must be at most 30 for 60 writers, 2 a client"),
        ("ids", 2, "partition must read ids:FILE or ids:FILE,OWNERS .*Received: partition=ids"),
        ("ids:file.npy,0", 2, "partition must read ids:FILE or ids:FILE,OWNERS"),
        ("synthetic:1,1", 2, "only tasks that are generated take it"),
        ("synthetic:1", 2, "partition must read synthetic:ALPHA,BETA"),
    ],
)
def test_errors_are_one_line(text: str, clients: int, message: str | None) -> None:
    if message is None:
        create_partition(text, clients)
        return
    with pytest.raises(ValueError, match=message) as caught:
        create_partition(text, clients)
    assert "\n" not in str(caught.value)


def test_natural_needs_writers_and_clients_have_bounds() -> None:
    with pytest.raises(ValueError, match="must not be natural for data without writers"):
        partition.create("natural", LABELS, 2, 0)
    with pytest.raises(IndexError, match=r"client must be in \[0, 20\). Received: client=20"):
        create_partition("iid")[20]
