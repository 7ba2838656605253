"""Figures of metrics.csv."""

import pytest

from tff_partial.results import metrics


def test_costs_of_a_target_and_spread_are_those_computed_by_hand():
    rows = [
        {"round": 1, "test_accuracy": 0.2, "simulated_seconds": 3, "bytes_down": 5, "bytes_up": 1},
        {"round": 2, "test_accuracy": None, "simulated_seconds": 4, "bytes_down": 5, "bytes_up": 2},
        {"round": 3, "test_accuracy": 0.6, "simulated_seconds": 5, "bytes_down": 5, "bytes_up": 3},
    ]
    assert metrics.cost_to(rows, 0.6) == (3, 12, 21)
    assert metrics.cost_to(rows, 0.7) is None
    assert metrics.cost_to(rows, None) is None
    del rows[1]["bytes_up"]
    assert metrics.cost_to(rows, 0.6) == (3, 12, None)
    assert metrics.spread([1.0, 2.0, float("nan"), 6.0]) == (3.0, pytest.approx(7**0.5), 3)
    assert metrics.spread([0.5]) == (0.5, None, 1)
    assert metrics.spread([]) is None
