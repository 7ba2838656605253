"""FjORD: a width for every step."""

from tests.algorithms import submodel_rounds


class TestRounds(submodel_rounds.Rounds):
    name, weighting = "fjord", "examples"


def test_equals_numpy_with_weight_decay_as_in_pytorch():
    submodel_rounds.check_with_weight_decay_as_in_pytorch("fjord")
