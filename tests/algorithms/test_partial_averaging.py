"""Partial averaging: a subset of the parameters after every step."""

import pytest

from tests import tiny
from tests.algorithms import averaging_rounds
from tests.algorithms.averaging_rounds import local
from tff_partial import tiers
from tff_partial.algorithms import registry


class TestRounds(averaging_rounds.Rounds):
    name = "partial_averaging"


def test_fedproxs_gradient():
    averaging_rounds.check_fedprox("partial_averaging")


def test_both_send_the_same_at_the_papers_intervals():
    """110 steps: 11 rounds of 10, or 10 rounds of 11 and one hand-over."""
    model, bytes_up = tiny.spec(), {}
    for name, steps, rounds in (("partial_averaging", 11, 10), ("periodic_averaging", 10, 11)):
        entry = registry.ALGORITHMS[name]
        params = entry.params(local=local(steps=steps), population=8, active=2)
        assert params.period() == (10 if name == "partial_averaging" else 1)
        bytes_up[name] = rounds * entry.cost(model, params, tiers.create("strong")).bytes_up
    # Bytes of a round are rounded.
    assert bytes_up["partial_averaging"] == pytest.approx(bytes_up["periodic_averaging"], abs=5)
