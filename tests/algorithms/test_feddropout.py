"""Federated Dropout: random channels."""

from tests.algorithms import submodel_rounds


class TestRounds(submodel_rounds.Rounds):
    name, weighting = "feddropout", "examples"
