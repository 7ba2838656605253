"""FedUMF: updates of clients that were not selected."""

import numpy as np

from tests import tiny
from tests.algorithms import stateful_rounds
from tests.algorithms.stateful_rounds import SELECTED, local


class TestRounds(stateful_rounds.Rounds):
    name = "fedumf"


def test_fedumf_tends_to_fedavg():
    """As alpha falls the distance from FedAvg falls in proportion."""
    data, distances = tiny.client_data(), []
    training = local(clip_norm=None, learning_rate=0.1)
    fedavg = tiny.Rounds(tiny.build("fedavg", training, weighting="uniform"), data)
    for now in SELECTED:
        fedavg.next(now)
    for alpha in (1.0, 1e-2, 1e-4):
        process = tiny.build("fedumf", training, alpha=alpha)
        running = tiny.Rounds(process, data)
        for now, then in zip(SELECTED, [*SELECTED[1:], []]):
            running.next(now, process.unselected(now, then, range(3)))
        pairs = zip(running.weights(), fedavg.weights())
        distances.append(max(np.abs(a - b).max() for a, b in pairs))
    assert distances[0] > 0.01
    assert distances[1] < 0.05 * distances[0]
    assert distances[2] < 1e-3 * distances[0]
