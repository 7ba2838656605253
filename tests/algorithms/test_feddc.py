"""FedDC: drift variables."""

from tests.algorithms import stateful_rounds


class TestRounds(stateful_rounds.Rounds):
    name, vectors = "feddc", 2


def test_control_variates_do_not_grow_with_momentum():
    stateful_rounds.check_variates_do_not_grow_with_momentum("feddc")
