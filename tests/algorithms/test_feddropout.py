"""Federated Dropout: random channels."""

from tests.algorithms import submodel_wise


class TestRounds(submodel_wise.Rounds):
    name, weighting = "feddropout", "examples"
