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


def test_a_target_may_be_reached_on_a_sample():
    rows = [
        {"round": 1, "test_accuracy": None, "sampled_test_accuracy": 0.3, "test_examples": 10},
        {"round": 2, "test_accuracy": None, "sampled_test_accuracy": 0.8, "test_examples": 10},
        {"round": 3, "test_accuracy": 0.6, "sampled_test_accuracy": None, "test_examples": 50},
    ]
    assert [metrics.rounds_to(rows, target) for target in (0.3, 0.5, 0.9)] == [1, 2, None]
    assert metrics.sample_size(rows) == 10
    assert metrics.sample_size(rows[2:]) is None
    assert metrics.values(rows, "test_accuracy") == [0.6]


def test_rounds_are_numbers_and_empty_cells_none(tmp_path):
    assert metrics.read(str(tmp_path)) == []
    (tmp_path / "metrics.csv").write_text("round,test_accuracy\n1,\n2,0.5\n")
    rows = metrics.read(str(tmp_path))
    assert rows == [{"round": 1, "test_accuracy": None}, {"round": 2, "test_accuracy": 0.5}]
    assert metrics.values(rows, "test_accuracy") == [0.5]


@pytest.mark.parametrize("content", ["round\nhigh\n", "loss\n1\n", "round\nnan\n", "round\n-1\n"])
def test_what_is_no_table_of_rounds_is_one_line(content, tmp_path):
    (tmp_path / "metrics.csv").write_text(content)
    with pytest.raises(
        ValueError, match="^metrics.csv must (hold numbers|have rounds). Received: "
    ):
        metrics.read(str(tmp_path))


def test_sums_need_a_number_in_every_row():
    rows = [{"a": 1, "b": 2}, {"a": 3, "b": 4}]
    assert metrics.cumulative(rows, ["a", "b"]) == [3, 10]
    assert metrics.cumulative([*rows, {"a": 1e200, "b": 0}], ["a", "b"]) is None
    assert metrics.cumulative([*rows, {"a": 1}], ["a", "b"]) is None
