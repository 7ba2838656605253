"""Clients without examples, and rounds without uploads."""

import numpy as np
import pytest
import tensorflow as tf

from tests import tiny
from tests.algorithms.stateful_rounds import PARAMS, local

# Those whose clients keep their models have a process of their own.
STATEFUL = sorted(set(PARAMS) - {"fedprox", "fednova"})


@pytest.mark.parametrize("name", STATEFUL)
def test_a_round_without_uploads_leaves_server_and_model_as_they_were(name):
    """All clients of a round may be too late."""
    running = tiny.Rounds(tiny.build(name, local(), **PARAMS[name]), tiny.client_data())
    running.next([0, 1])
    before, kept = running.weights(), tf.nest.flatten(running.state.finalizer)
    running.next([], [2])
    for a, b in zip(running.weights(), before):
        np.testing.assert_array_equal(a, b)
    for a, b in zip(tf.nest.flatten(running.state.finalizer), kept):
        np.testing.assert_array_equal(a, b)


@pytest.mark.parametrize("name", STATEFUL)
def test_a_client_without_examples_changes_nothing(name):
    data = tiny.client_data()
    empty = data[0][0][:0], data[0][1][:0]
    process = tiny.build(name, local(), tiny.spec(batch_norm=True), population=4)
    weights = []
    for clients, selected in ((data, [0, 1, 2]), ([*data, empty], [0, 1, 2, 3])):
        running = tiny.Rounds(process, clients)
        for _ in range(3):
            running.next(selected)
        weights.append(running.weights())
    for a, b in zip(*weights):
        np.testing.assert_array_equal(a, b)
    for a, b in zip(tiny.flat(running.kept(3)), tiny.flat(process.initial_client_state())):
        np.testing.assert_array_equal(a, b)
