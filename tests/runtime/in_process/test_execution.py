"""Levels of a plan: the order of clients, and what is traced."""

import numpy as np
import tensorflow as tf
import tensorflow_federated as tff

from tests.runtime.in_process.computations import run
from tff_partial.runtime.in_process import context as in_process
from tff_partial.runtime.in_process import execution


def test_clients_keep_their_order():
    @tff.tensorflow.computation(np.int32)
    def loop(steps):
        return tf.while_loop(lambda i: i < 10000 * (steps % 3), lambda i: i + 1, [0])[0] + steps

    computation = tff.federated_computation(
        lambda x: tff.federated_map(loop, x), tff.FederatedType(np.int32, tff.CLIENTS)
    )
    result = run(in_process.InProcessContext(4), computation, list(range(12)))
    assert result == [10000 * (i % 3) + i for i in range(12)]


def test_a_computation_that_is_called_several_times_is_traced_once(monkeypatch):
    @tff.tensorflow.computation(np.float32, np.float32)
    def add(x, y):
        return x + y

    @tff.federated_computation(
        tff.FederatedType(np.float32, tff.SERVER), tff.FederatedType(np.float32, tff.CLIENTS)
    )
    def three_levels(start, values):
        total = start
        for _ in range(3):
            values = tff.federated_map(add, (values, tff.federated_broadcast(total)))
            total = tff.federated_sum(values)
        return total, values

    traced, original = [], execution.TracedFunction

    def trace(function):
        traced.append(function)
        return original(function)

    monkeypatch.setattr(execution, "TracedFunction", trace)
    total, values = run(in_process.InProcessContext(2), three_levels, 1.0, [1.0, 2.0])
    # 1, 2 -> 2, 3 (5) -> 7, 8 (15) -> 22, 23 (45)
    assert (total, values) == (45.0, [22.0, 23.0])
    of_clients = [f for f in traced if any(s.region.name == "clients" for s in f.steps)]
    assert len(of_clients) == 1
