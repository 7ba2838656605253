"""HeteroFL: the first channels of every layer."""

from tests.algorithms import submodel_rounds


class TestRounds(submodel_rounds.Rounds):
    name, weighting = "heterofl", "uniform"


def test_equals_numpy_with_weight_decay_as_in_pytorch():
    submodel_rounds.check_with_weight_decay_as_in_pytorch("heterofl")
