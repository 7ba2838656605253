"""The first layers: InclusiveFL's way."""

from tests.algorithms import layer_wise


class TestRounds(layer_wise.Rounds):
    name = "prefix"
    moved = (*[True] * 4, *[False] * 4)
