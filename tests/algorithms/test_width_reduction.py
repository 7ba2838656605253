"""Width reduction: fixed narrower models."""

from tests.algorithms import submodel_rounds


class TestRounds(submodel_rounds.Rounds):
    name, weighting = "width_reduction", "examples"
