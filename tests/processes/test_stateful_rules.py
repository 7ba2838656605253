"""What an algorithm does that says nothing of it."""

import tensorflow as tf

from tests.processes.vectors import check, vector
from tff_partial.processes import stateful_rules
from tff_partial.processes.stateful_rules import Rules, Server, Update


def test_the_mean_is_added_and_the_state_stays():
    state = {"variate": vector(7, 7)}
    server = Server(vector(1, 2), state, vector(3, -1), vector(9, 9), (), tf.constant(3.0))
    model, after = stateful_rules.add_mean(server)
    check(model, 4, 1)
    assert after is state


def test_rules_are_those_of_plain_averaging_by_default():
    rules = Rules(client_state=lambda x: (), client=lambda client: Update(client.weights, ()))
    assert rules.server is stateful_rules.add_mean
    assert rules.unselected([0], [1], [0, 1, 2]) == []
    assert (rules.pull, rules.server_state(vector(1, 2)), rules.sent(())) == (0.0, (), ())
    assert Update(vector(1, 2), ()).summed.tensors == []
