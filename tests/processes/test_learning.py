"""The learning process: the server's step, learning rates, clients without examples."""

import numpy as np

from tests import tiny
from tff_partial.algorithms import fedavg
from tff_partial.core import client_data
from tff_partial.core.local_training import LocalTraining


def test_learning_rate_follows_the_round():
    slow = LocalTraining(steps=2, learning_rate="0.1,1:0.000001")
    process = fedavg.build(tiny.spec(), fedavg.Params(slow))
    first, _ = tiny.run(process, tiny.client_data(), 1)
    second, _ = tiny.run(process, tiny.client_data(), 1, state=first)
    assert int(second.client_work) == 2
    start = tiny.flat(process.initialize().global_model_weights)
    after_first, after_second = (tiny.flat(s.global_model_weights) for s in (first, second))
    assert max(np.abs(a - b).max() for a, b in zip(start, after_first)) > 1e-3
    assert max(np.abs(a - b).max() for a, b in zip(after_first, after_second)) < 1e-5


def test_server_learning_rate_scales_the_step():
    states = []
    for rate in (1.0, 0.5):
        params = fedavg.Params(LocalTraining(steps=2), server_learning_rate=rate)
        process = fedavg.build(tiny.spec(), params)
        states.append(process.next(process.initialize(), tiny.cohort(tiny.client_data())).state)
    start = tiny.flat(process.initialize().global_model_weights)
    whole, half = (tiny.flat(s.global_model_weights) for s in states)
    for s, w, h in zip(start, whole, half):
        np.testing.assert_allclose(h - s, (w - s) / 2, atol=1e-6)


def test_a_client_without_examples_does_not_count():
    process = fedavg.build(tiny.spec(), fedavg.Params(LocalTraining(steps=2)))
    data = tiny.client_data()
    empty = (np.zeros([0, tiny.FEATURES], np.float32), np.zeros([0], np.int32))
    start = process.initialize()
    expected = process.next(start, tiny.cohort(data)).state
    cohort = [*tiny.cohort(data), client_data.create_record(*empty, client_id=9)]
    actual = process.next(start, cohort).state
    for a, b in zip(tiny.flat(actual), tiny.flat(expected)):
        np.testing.assert_array_equal(a, b)


def test_nobody_with_examples_leaves_the_model_where_it_was():
    process = fedavg.build(tiny.spec(batch_norm=True), fedavg.Params(LocalTraining(epochs=1)))
    empty = (np.zeros([0, tiny.FEATURES], np.float32), np.zeros([0], np.int32))
    start = process.initialize()
    output = process.next(start, [client_data.create_record(*empty)])
    for a, b in zip(
        tiny.flat(output.state.global_model_weights), tiny.flat(start.global_model_weights)
    ):
        np.testing.assert_array_equal(a, b)
    assert float(output.metrics["client_work"]["train_loss"]) == 0.0


def test_initial_weights_follow_the_seed():
    def initial(seed):
        params = fedavg.Params(LocalTraining(steps=1))
        return tiny.flat(fedavg.build(tiny.spec(seed=seed), params).initialize())

    assert all(np.array_equal(a, b) for a, b in zip(initial(1), initial(1)))
    assert not all(np.array_equal(a, b) for a, b in zip(initial(1), initial(2)))
