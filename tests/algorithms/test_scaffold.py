"""SCAFFOLD: control variates."""

import numpy as np

from tests import tiny
from tests.algorithms import stateful_rounds
from tests.algorithms.stateful_rounds import local


class TestRounds(stateful_rounds.Rounds):
    name, vectors = "scaffold", 2


def test_scaffold_with_zero_variates_is_fedavg():
    data = tiny.client_data()
    found = []
    for name in ("scaffold", "fedavg"):
        running = tiny.Rounds(tiny.build(name, local(), weighting="uniform"), data)
        running.next([0, 2])  # every variate is zero in the first round
        found.append(running.weights())
    for a, b in zip(*found):
        np.testing.assert_array_equal(a, b)


def test_control_variates_do_not_grow_with_momentum():
    stateful_rounds.check_variates_do_not_grow_with_momentum("scaffold")
