"""Periodic averaging: all parameters every tau steps."""

from tests.algorithms import averaging_rounds


class TestRounds(averaging_rounds.Rounds):
    name = "periodic_averaging"
