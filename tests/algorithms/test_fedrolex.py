"""FedRolex: a window of channels that rolls on."""

from tests.algorithms import submodel_wise


class TestRounds(submodel_wise.Rounds):
    name, weighting = "fedrolex", "uniform"
