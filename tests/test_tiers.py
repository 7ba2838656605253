"""Tiers: how they are written, other numbers of clients, which client is of which, drawn rates."""

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
    assert [(tier.name, tier.count) for tier in tiers.parse(text)] == expected


@pytest.mark.parametrize(
    ("name", "are_rates", "kind", "value"),
    [
        ("strong", False, "named", 1.0),
        ("moderate", False, "named", 0.45),
        ("weak", True, "named", 0.2),
        ("7", False, "blocks", 7),
        ("0.3", False, "memory", 0.3),
        (".25", False, "memory", 0.25),
        ("1/3", False, "rate", 1 / 3),
        ("1/3", True, "rate", 1 / 3),
        ("0.3", True, "rate", 0.3),
        ("1", True, "rate", 1.0),
    ],
)
def test_kinds(name, are_rates, kind, value):
    assert tiers.create(name, 5, are_rates) == Tier(name, kind, value, 5)


@pytest.mark.parametrize("name", ["", "7", "0", "0.0", "1.5", "3/2", "1/0", "1/00", "huge", "nan"])
def test_what_is_no_rate_is_refused_for_submodels(name):
    message = rf"^a tier of sub-models must be .* Received: tier={re.escape(repr(name))}$"
    with pytest.raises(ValueError, match=message):
        tiers.create(name, are_rates=True)
    with pytest.raises(ValueError, match="Received: tiers="):
        tiers.parse(f"{name}:x", are_rates=True)


def test_numbers_of_blocks_and_memory_are_no_rates():
    assert [tier.rate for tier in tiers.parse("strong:1,weak:1,1/4:1")] == [1.0, 0.2, 0.25]
    for tier in tiers.parse("1:1,0.5:1"):
        with pytest.raises(ValueError, match="a tier of sub-models must be"):
            _ = tier.rate


def test_who_trains_the_whole_model():
    found = {t.name: t.is_whole for t in tiers.parse("strong:1,0:1,1:1,0.9:1,1/1:1,weak:1")}
    assert [name for name, is_whole in found.items() if is_whole] == ["strong", "0"]


def test_tiers_given_by_name_or_ready():
    ready = tiers.create("0.5", 3)
    assert tiers.as_tiers(["strong", ready]) == (tiers.create("strong"), ready)


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
    received = rf"Received: tiers={re.escape(repr(text))}(\. Did you mean strong\?)?"
    message = rf"^tiers must be like strong:16,.* {received}$"
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


def drawn(text):
    return {tier.name: share for tier, share in tiers.parse_drawn(text).items()}


def test_feddse_draws_from_five_capacities_with_their_jitter():
    found = drawn("feddse")
    assert found == pytest.approx(
        {
            "1": 0.002,
            "15/16": 0.198,
            "9/16": 0.002,
            "1/2": 0.196,
            "7/16": 0.002,
            "5/16": 0.002,
            "1/4": 0.196,
            "3/16": 0.004,
            "1/8": 0.196,
            "1/16": 0.202,
        }
    )
    assert sum(found.values()) == pytest.approx(1.0)
    assert {tier.kind for tier in tiers.parse_drawn("feddse")} == {"rate"}


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("1/4", {"1/4": 1.0}),
        ("1/16:0.8,1/2:0.2", {"1/2": 0.2, "1/16": 0.8}),
        ("1,0.5", {"1": 0.5, "0.5": 0.5}),
        ("weak:3,strong:1", {"strong": 0.25, "weak": 0.75}),
        ("1/2:0,1/16:1", {"1/2": 0.0, "1/16": 1.0}),
    ],
)
def test_parse_drawn(text, expected):
    found = drawn(text)
    assert found == pytest.approx(expected)
    assert list(found) == list(expected)


BAD = ["", "2", "1/2:x", "1/2,0.5", "1/0", "1/00", "1/2:0", "7:3", "1/2:-1", f"1/2:{'9' * 400}"]


@pytest.mark.parametrize("text", [*BAD, f"{'9' * 400}/1"])
def test_what_cannot_be_read_is_refused_in_one_line(text):
    with pytest.raises(ValueError, match="Received") as error:
        tiers.parse_drawn(text)
    assert "\n" not in str(error.value)


def test_draws_follow_the_probabilities_and_can_be_repeated():
    def draw(client, round_num):
        return tiers.draw([0.2, 0.8], 1, client, round_num)

    found = np.array([draw(client, 5) for client in range(2000)])
    assert abs((found == 0).mean() - 0.2) < 5 * np.sqrt(0.2 * 0.8 / 2000)
    assert list(found[:50]) == [draw(client, 5) for client in range(50)]
    assert len({tuple(draw(client, t) for client in range(50)) for t in range(5)}) == 5
