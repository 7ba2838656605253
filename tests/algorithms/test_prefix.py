"""The first layers: InclusiveFL's way."""

from tests.algorithms import layer_rounds


class TestRounds(layer_rounds.Rounds):
    name = "prefix"
    moved = (*[True] * 4, *[False] * 4)
