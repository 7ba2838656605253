"""FedRolex: a window of channels that rolls on."""

from tests.algorithms import submodel_rounds


class TestRounds(submodel_rounds.Rounds):
    name, weighting = "fedrolex", "uniform"
