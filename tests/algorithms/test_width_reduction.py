"""Width reduction: fixed narrower models."""

from tests.algorithms import submodel_wise


class TestRounds(submodel_wise.Rounds):
    name, weighting = "width_reduction", "examples"
