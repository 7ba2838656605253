"""Short runs of tiny processes, for several test files."""

import numpy as np

from tests import tiny
from tff_partial.core import evaluation
from tff_partial.core.local_training import LocalTraining
from tff_partial.experiments import callbacks
from tff_partial.experiments import loop as training
from tff_partial.results import metrics

LOCAL = LocalTraining(steps=3, batch_size=4, learning_rate="0.2*0.9", momentum=0.5)


class Data:
    """Clients whose data are made when they are asked for."""

    def __init__(self, num_clients):
        self.num_clients = num_clients
        self.asked = set()

    def client(self, client):
        self.asked.add(client)
        return tiny.client_data((6,), seed=client)[0]


def evaluate(weights):
    """A loss that every weight changes."""
    total = sum(float(np.abs(w).sum()) for w in tiny.flat(weights))
    return evaluation.Evaluation(total, {"accuracy": 0.5}, 9)


def run(process, folder, rounds=6, **others):
    """The weights after training with a checkpoint every second round."""
    options = training.LoopOptions(rounds, 2, checkpoint_every=2)
    return tiny.flat(training.train(process, Data(5), evaluate, options, str(folder), **others))


def without_seconds(folder):
    """The rows of metrics.csv but for the time that they took."""
    rows = metrics.read(str(folder))
    return [{name: v for name, v in row.items() if name != "seconds"} for row in rows]


def equal(found, expected):
    """Whether all weights are the same bit for bit."""
    return all(np.array_equal(a, b) for a, b in zip(found, expected))


class Watching(callbacks.Callback):
    """Notes what it is told of."""

    def __init__(self):
        self.done, self.rows, self.has_ended = [], [], False

    def on_start(self, done):
        self.done.append(done)

    def on_round(self, done, row):
        self.done.append(done)
        self.rows.append(row)

    def on_end(self):
        self.has_ended = True
