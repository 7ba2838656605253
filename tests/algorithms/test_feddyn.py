"""FedDyn: dynamic regularisation."""

import numpy as np
import pytest

from tests import tiny
from tests.algorithms import stateful_rounds
from tests.algorithms.stateful_rounds import local


class TestRounds(stateful_rounds.Rounds):
    name = "feddyn"


@pytest.mark.parametrize("weighting", ["uniform", "examples"])
def test_feddyn_without_regularisation_adds_the_drift(weighting):
    """alpha = 0: clients train as in FedAvg, the server still adds the mean drift."""
    data = tiny.client_data()
    feddyn = tiny.Rounds(tiny.build("feddyn", local(), alpha=0.0, weighting=weighting), data)
    fedavg = tiny.Rounds(tiny.build("fedavg", local(), weighting=weighting), data)
    # The drift is not weighted, so that it is that of all clients together.
    uniform = tiny.Rounds(tiny.build("fedavg", local(), weighting="uniform"), data)
    initial = feddyn.weights()
    for running in (feddyn, fedavg, uniform):
        running.next([0, 2])
    for a, b, u, x in zip(feddyn.weights(), fedavg.weights(), uniform.weights(), initial):
        np.testing.assert_allclose(a, b + (u - x) * 2 / 3, atol=1e-6)
