"""Tiers: their text, other numbers of clients, and which client is of which."""

import re

import numpy as np
import pytest

from tff_partial import tiers
from tff_partial.tiers import Tier


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("strong:128", [("strong", 128)]),
        ("strong:16,moderate:16,weak:96", [("strong", 16), ("moderate", 16), ("weak", 96)]),
        ("weak:3,strong:0", [("weak", 3), ("strong", 0)]),
        ("0:16,7:112", [("0", 16), ("7", 112)]),
        ("strong:16,0.3:56,.25:56", [("strong", 16), ("0.3", 56), (".25", 56)]),
    ],
)
def test_parse(text, expected):
    assert tiers.parse(text) == tuple(Tier(*pair) for pair in expected)


@pytest.mark.parametrize(
    "text",
    [
        "",
        "strong",
        "strong:",
        ":3",
        "strong:1,",
        "strong:1,strong:2",
        "strong:-1",
        "strong:1.5",
        "strong:1, weak:2",
        "1.5:3",
        "huge:3",
        "Strong:3",
    ],
)
def test_parse_refuses(text):
    message = rf"^tiers must be like strong:16,.* Received: tiers={re.escape(repr(text))}$"
    with pytest.raises(ValueError, match=message):
        tiers.parse(text)


def test_scale_keeps_proportions():
    parsed = tiers.parse("strong:16,moderate:16,weak:96")
    assert tiers.scale(parsed, 128) == "strong:16,moderate:16,weak:96"
    assert tiers.scale(parsed, 8) == "strong:1,moderate:1,weak:6"
    assert tiers.scale(parsed, 1280) == "strong:160,moderate:160,weak:960"
    assert tiers.scale(tiers.parse("0:1,0.3:1"), 5) == "0:2,0.3:3"


@pytest.mark.parametrize("text", ["strong:7", "0:16,7:112", "strong:16,moderate:32,weak:80"])
def test_scale_sums_to_the_clients(text):
    parsed = tiers.parse(text)
    total = sum(tier.count for tier in parsed)
    for clients in range(1, 300):
        scaled = tiers.parse(tiers.scale(parsed, clients))
        assert [tier.name for tier in scaled] == [tier.name for tier in parsed]
        assert sum(tier.count for tier in scaled) == clients
        exact = [tier.count * clients / total for tier in parsed]
        assert scaled[0].count >= 1  # somebody trains the first layers
        if exact[0] >= 1:
            assert all(abs(tier.count - share) < 1 for tier, share in zip(scaled, exact))


def test_assign():
    parsed = tiers.parse("strong:3,moderate:0,weak:9")
    found = tiers.assign(parsed, seed=5)
    assert found.dtype == np.uint8
    assert np.bincount(found, minlength=3).tolist() == [3, 0, 9]
    np.testing.assert_array_equal(found, tiers.assign(parsed, seed=5))


def test_assign_depends_on_the_seed():
    parsed = tiers.parse("strong:16,weak:16")
    found = [tiers.assign(parsed, seed) for seed in range(5)]
    assert len({tuple(clients) for clients in found}) == 5
    # In random order, not in that of the tiers.
    assert all((np.diff(clients.astype(int)) < 0).any() for clients in found)
