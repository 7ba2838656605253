"""Periodic averaging: all parameters every tau steps."""

import numpy as np

from tests import tiny
from tests.algorithms import averaging_rounds
from tests.algorithms.averaging_rounds import SIZES, local


class TestRounds(averaging_rounds.Rounds):
    name = "periodic_averaging"


def test_fedproxs_gradient():
    averaging_rounds.check_fedprox("periodic_averaging")


def test_with_fedproxs_gradient_a_round_without_momentum_is_fedproxs():
    data, learning = tiny.client_data(SIZES), local(momentum=0.0)
    ours = tiny.Rounds(tiny.build("periodic_averaging", learning, mu=0.7), data)
    fedprox = tiny.Rounds(tiny.build("fedprox", learning, mu=0.7, weighting="uniform"), data)
    for _ in range(3):
        ours.next()
        fedprox.next()
    for a, b in zip(ours.weights(), fedprox.weights()):
        np.testing.assert_allclose(a, b, atol=1e-6)
