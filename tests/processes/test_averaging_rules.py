"""What is averaged when."""

from tests import tiny
from tff_partial.processes import averaging_rules
from tff_partial.processes.averaging_rules import NOTHING, Rules


def test_by_step_averages_at_the_end_of_a_segment():
    rules = Rules(None, [(0, 3, 0), (3, 5, 1)]).by_step()
    steps = [(0, 1, NOTHING), (1, 2, NOTHING), (2, 3, 0), (3, 4, NOTHING), (4, 5, 1)]
    assert rules.segments == steps
    assert rules.interval == 5


def test_varying_has_a_segment_for_each_length():
    intervals = averaging_rules.Intervals(lambda: (), lambda *args: 0, lambda *args: ())
    rules = averaging_rules.varying(tiny.spec(), 3, intervals)
    assert rules.segments == [(0, 1, 0), (0, 2, 0), (0, 3, 0)]
    assert rules.interval == 3
