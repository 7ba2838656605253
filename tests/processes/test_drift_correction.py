"""FedDC's rules, computed by hand."""

import pytest
import tensorflow as tf

from tests.processes.vectors import check, client, vector
from tff_partial.core.local_training import LocalTraining
from tff_partial.core.vectors import Vector
from tff_partial.processes import drift_correction
from tff_partial.processes.drift_correction import DriftParams
from tff_partial.processes.stateful_rules import Server


def train(momentum, variate):
    """The round of a client whose model moves by (-1, 2) and its slope to 10."""
    given = []

    def sgd(start, slope):
        given.append(slope)
        return start + vector(-1, 2), vector(10, 10)

    state = {"slope": vector(3, 4), "variate": variate, "model": vector(0, 0)}
    of_round = client(state, sent=vector(8, 6), momentum=momentum, train=sgd)
    return given, drift_correction.train(of_round, of_round.weights)


def test_a_client_keeps_its_slope_without_momentum():
    """K eta is 4 * 0.5 = 2, so that the mean gradient is (0.5, -1)."""
    (slope,), update = train(0.0, Vector(()))
    check(slope, 3 + 8, 4 + 6)
    check(update.model, 0, 4)
    check(update.state["slope"], 10 - 0.5, 10 + 1)
    assert update.state["variate"].tensors == []
    check(update.summed["gradient"], 0.5, -1)
    check(update.summed["model"], 0, 4)


def test_a_client_keeps_its_variate_as_well_with_momentum():
    """c - c_i is (4, 4); a half of it is in the gradient, of which a half goes to the slope."""
    (slope,), update = train(0.5, vector(4, 2))
    check(slope, 3 + 4, 4 + 3)
    check(update.state["variate"], 0.5 - 2, -1 - 2)
    check(update.state["slope"], 10 - (0.5 - 2 + 4) / 2, 10 - (-1 - 2 + 4) / 2)
    check(update.summed["gradient"], 0.5 + 2, -1 + 2)


def test_the_server_adds_the_drift_of_all_clients():
    rules = drift_correction.create_rules(DriftParams(LocalTraining(steps=1), population=4))
    state = {"drift": vector(1, 1), "variate": vector(2, 2), "all_clients": vector(5, 5)}
    sums = {"gradient": vector(12, 4), "model": vector(8, -4)}
    server = Server(vector(1, 2), state, vector(3, 0), vector(6, 0), sums, tf.constant(2.0))
    model, after = rules.server(server)
    check(after["drift"], 1 + 6 / 4, 1)
    check(model, 1 + 3 + 2.5, 2 + 0 + 1)
    check(after["variate"], 2 + (12 - 4) / 4, 2 + (4 - 4) / 4)
    check(after["all_clients"], 5 + 2, 5 - 1)
    check(rules.sent(state), 2, 2)


def test_a_negative_penalty_is_refused():
    with pytest.raises(ValueError, match="alpha must not be negative. Received: alpha=-1"):
        DriftParams(LocalTraining(steps=1), alpha=-1.0)
