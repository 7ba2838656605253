"""FedDSE: the channels with the highest scores."""

from tests.algorithms import submodel_wise


class TestRounds(submodel_wise.Rounds):
    name, weighting = "feddse", "uniform"
