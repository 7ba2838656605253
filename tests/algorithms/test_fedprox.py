"""FedProx: a pull towards the server's model."""

from tests.algorithms import stateful_rounds


class TestRounds(stateful_rounds.Rounds):
    name = "fedprox"
