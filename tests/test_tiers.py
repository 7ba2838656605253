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


@pytest.mark.parametrize(
    ("name", "kind", "value", "canonical", "label"),
    [
        ("memory:0.25", "memory", 0.25, "memory:0.25", "memory_0.25"),
        ("compute:.50", "compute", 0.5, "compute:0.5", "compute_0.5"),
        ("params:1.0", "params", 1.0, "params:1", "params_1"),
        ("memory:0.000001", "memory", 1e-6, "memory:0.000001", "memory_0.000001"),
        ("rate:1/3", "rate", 1 / 3, "rate:1/3", "rate_1-3"),
        ("blocks:03", "blocks", 3, "blocks:3", "blocks_3"),
    ],
)
def test_budgets_mean_the_same_for_all(name, kind, value, canonical, label):
    expected = Tier(canonical, kind, value, 5, is_budget=True)
    assert tiers.create(name, 5) == tiers.create(name, 5, are_rates=True) == expected
    assert expected.label == label
    assert tiers.create(canonical) == tiers.create(name)
    assert tiers.create("1/2").label == "1/2"


@pytest.mark.parametrize(
    "name", ["memory:", "memory:0", "memory:1.5", "rate:3/2", "blocks:0.5", "time:0.5", "rate:1/0"]
)
def test_what_is_no_budget_is_refused(name):
    message = rf"^a budget must be memory, .* Received: tier={re.escape(repr(name))}$"
    with pytest.raises(ValueError, match=message):
        tiers.create(name)


def test_a_misspelt_budget_gets_a_suggestion():
    with pytest.raises(ValueError, match=r"Received: tier='memry:0.5'. Did you mean memory\?$"):
        tiers.create("memry:0.5")


def test_budgets_compose_with_counts_and_shares():
    text = "strong:4,memory:0.25:12,7:1,blocks:3:25%,0.3:12.5%"
    found = [(tier.name, tier.kind, tier.count) for tier in tiers.parse(text, clients=40)]
    assert found == [
        ("strong", "named", 4),
        ("memory:0.25", "memory", 12),
        ("7", "blocks", 1),
        ("blocks:3", "blocks", 10),
        ("0.3", "memory", 5),
    ]
    assert [t.count for t in tiers.parse(text)] == [4, 12, 1, 0, 0]
    with pytest.raises(ValueError, match=r"^tiers must be like strong:16,.* each once"):
        tiers.parse("memory:0.25:3,memory:.250:3")
    assert tiers.select(tiers.parse(text), "memory:.25")[0].name == "memory:0.25"


@pytest.mark.parametrize("shares", ["12.5%,87.5%", "33.3%,33.3%,33.4%", "1%,9%,90%", "100%"])
def test_shares_add_up_to_the_clients(shares):
    names = ["strong", "memory:0.5", "weak"]
    text = ",".join(f"{name}:{share}" for name, share in zip(names, shares.split(",")))
    exact = [float(share[:-1]) / 100 for share in shares.split(",")]
    for clients in range(100, 200):
        counts = [tier.count for tier in tiers.parse(text, clients=clients)]
        assert sum(counts) == clients
        assert all(abs(count - clients * share) < 1 for count, share in zip(counts, exact))


def test_a_share_without_a_client_is_refused():
    with pytest.raises(ValueError, match=r"^a tier's share must be at least one of 20 clients\. "):
        tiers.parse("strong:1%,weak:99%", clients=20)
    assert [t.count for t in tiers.parse("strong:0%,weak:100%", clients=20)] == [0, 20]


def test_numbers_of_blocks_and_memory_are_no_rates():
    assert [tier.rate for tier in tiers.parse("strong:1,weak:1,1/4:1")] == [1.0, 0.2, 0.25]
    for tier in tiers.parse("1:1,0.5:1"):
        with pytest.raises(ValueError, match="a tier of sub-models must be"):
            _ = tier.rate


def test_who_trains_the_whole_model():
    text = "strong:1,0:1,1:1,0.9:1,1/1:1,weak:1,memory:1:1,rate:0.9:1,blocks:0:1,blocks:1:1"
    found = {t.name: t.is_whole for t in tiers.parse(text)}
    whole = [name for name, is_whole in found.items() if is_whole]
    assert whole == ["strong", "0", "memory:1", "blocks:0"]


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
