"""Curves of what is measured after every local step."""

import pytest

from tff_partial.report import steps
from tff_partial.report.runs import Run
from tff_partial.results.schema import Config


def run_of(rounds, per_round, factor=1.0, missing=()):
    rows = [
        {
            "round": t + 1.0,
            **{
                f"discrepancy_{k + 1}": None if t in missing else factor * (per_round * t + k)
                for k in range(per_round)
            },
        }
        for t in range(rounds)
    ]
    return Run("a", Config(), rows, {})


def test_the_first_and_the_last_steps_are_drawn_one_by_one():
    found = steps.points([run_of(300, 4)])
    first, last = found[steps.FIRST], found[steps.LAST]
    assert len(first["mean"]) == len(last["mean"]) == steps.WINDOW
    assert (first["rounds"][0], first["rounds"][3], first["mean"][3]) == (0.25, 1.0, 3.0)
    assert (last["rounds"][0], last["rounds"][-1], last["mean"][-1]) == (175.25, 300.0, 1199.0)
    assert first["spread"] is None


def test_they_are_means_over_seeds_of_the_rounds_that_all_have():
    found = steps.points([run_of(3, 2), run_of(5, 2, factor=3.0, missing=[1])])
    assert found[steps.LAST] is None
    curve = found[steps.FIRST]
    assert curve["rounds"] == [0.5, 1.0, 2.5, 3.0]
    assert curve["mean"] == pytest.approx([0.0, 2.0, 8.0, 10.0])
    assert curve["spread"] == pytest.approx([0.0, 1.414, 5.657, 7.071], rel=1e-3)


def test_runs_without_such_columns_have_no_such_curves():
    assert steps.points([Run("a", Config(), [{"round": 1.0}], {})]) == dict.fromkeys(
        [steps.FIRST, steps.LAST]
    )
    assert steps.points([]) == dict.fromkeys([steps.FIRST, steps.LAST])
