"""Numbers as texts, and cells that several tables have."""

import pytest

from tff_partial.report import cells
from tff_partial.results.metrics import Spread


@pytest.mark.parametrize(
    ("value", "text"),
    [(0, "0"), (12.0, "12"), (1234567, "1,235,000"), (0.012345, "0.01235"), (-3.10, "−3.1")],
)
def test_numbers_have_four_significant_digits(value, text):
    assert cells.significant(value) == text


@pytest.mark.parametrize(
    ("spread", "text"),
    [
        (None, "–"),
        (Spread(0.5, None, 1), "50.00"),
        (Spread(0.5, 0.0125, 2), "50.00 ± 1.25"),
    ],
)
def test_a_deviation_has_the_decimals_of_its_mean(spread, text):
    assert cells.with_spread(spread, cells.percent, cells.PERCENT) == text


def test_the_deviation_of_a_whole_mean_has_one_decimal_unless_it_is_whole():
    assert cells.with_spread(Spread(3.0, 0.71, 2), cells.one_decimal) == "3 ± 0.7"
    assert cells.with_spread(Spread(3.0, 1.0, 2), cells.one_decimal) == "3 ± 1"
