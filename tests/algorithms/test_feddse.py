"""FedDSE: the channels with the highest scores."""

from tests.algorithms import submodel_rounds


class TestRounds(submodel_rounds.Rounds):
    name, weighting = "feddse", "uniform"
