"""Rates that clients draw every round."""

import numpy as np
import pytest

from tff_partial import capacities


def test_feddse_draws_from_five_capacities_with_their_jitter():
    found = capacities.parse("feddse")
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
def test_parse(text, expected):
    found = capacities.parse(text)
    assert found == pytest.approx(expected)
    assert list(found) == list(expected)


BAD = ["", "2", "1/2:x", "1/2,0.5", "1/0", "1/00", "1/2:0", "7:3", "1/2:-1", f"1/2:{'9' * 400}"]


@pytest.mark.parametrize("text", [*BAD, f"{'9' * 400}/1"])
def test_what_cannot_be_read_is_refused_in_one_line(text):
    with pytest.raises(ValueError, match="Received") as error:
        capacities.parse(text)
    assert "\n" not in str(error.value)


def test_draws_follow_the_probabilities_and_can_be_repeated():
    text = "1/2:0.2,1/16:0.8"
    drawn = np.array([capacities.draw(text, 1, client, 5) for client in range(2000)])
    assert abs((drawn == 0).mean() - 0.2) < 5 * np.sqrt(0.2 * 0.8 / 2000)
    again = [capacities.draw(text, 1, client, 5) for client in range(50)]
    assert list(drawn[:50]) == again
    rounds = {tuple(capacities.draw(text, 1, c, t) for c in range(50)) for t in range(5)}
    assert len(rounds) == 5


@pytest.mark.parametrize(
    ("tier", "rate"), [("strong", 1.0), ("moderate", 0.45), ("weak", 0.2), ("1/3", 1 / 3), ("1", 1)]
)
def test_rates_of_tiers(tier, rate):
    assert capacities.rate_of(tier) == pytest.approx(rate)
