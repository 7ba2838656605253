"""Remote workers, here on loopback: same results, and rounds that survive their loss."""

import signal
import threading
import time

import numpy as np
import pytest
import tensorflow_federated as tff

from tests import stock
from tests.runtime.workers.processes import CLIENTS_INT, total
from tff_partial.runtime.workers import client, local_cpp, remote


def test_one_and_two_workers_equal_the_local_one(workers, connect):
    local = local_cpp.create_context()
    cohorts = [stock.client_data(5), stock.client_data(1), stock.client_data(5)]
    expected = stock.train(local, cohorts)
    local.close()
    for addresses in (workers.addresses[:1], workers.addresses):
        weights = stock.train(connect(addresses), cohorts)
        np.testing.assert_allclose(weights, expected, atol=1e-6)


def test_no_clients_and_fewer_than_workers(workers, connect):
    context = connect(workers.addresses)
    for values in ([], [5], [5, 6], [5, 6, 7]):
        assert context.invoke(total, values) == sum(values)


def test_computations_without_clients(workers, connect):
    @tff.tensorflow.computation(np.int32)
    def double(x):
        return 2 * x

    @tff.federated_computation
    def at_server():
        return tff.federated_value(3, tff.SERVER)

    context = connect(workers.addresses)
    assert context.invoke(double, 4) == 8
    assert context.invoke(at_server, None) == 3


def test_client_values_come_back_complete(workers, connect):
    @tff.tensorflow.computation(np.int32)
    def double(x):
        return 2 * x

    @tff.federated_computation(CLIENTS_INT)
    def double_each(values):
        return tff.federated_map(double, values), tff.federated_sum(values)

    each, whole = connect(workers.addresses).invoke(double_each, [1, 2, 3, 4, 5])
    assert sorted(each) == [2, 4, 6, 8, 10]
    assert whole == 15


def test_two_aggregations_need_one_worker(workers, connect):
    @tff.federated_computation(CLIENTS_INT)
    def sum_times_clients(values):
        first = tff.federated_broadcast(tff.federated_sum(values))
        return tff.federated_sum(first)

    assert connect(workers.addresses[:1]).invoke(sum_times_clients, [1, 2, 3]) == 18
    with pytest.raises(ValueError, match="run it with one worker, or use .* one-step form"):
        connect(workers.addresses).invoke(sum_times_clients, [1, 2, 3])


def test_a_worker_killed_in_the_middle_of_a_round_changes_nothing(workers, connect):
    context = connect(workers.addresses)
    long = stock.client_data(4, repeat=2000)
    cohorts = [stock.client_data(4), long, stock.client_data(4)]
    expected = stock.train(context, cohorts)
    killed, ended = threading.Event(), threading.Event()

    def kill():
        if workers.is_computing(1, until=ended):
            workers.signal(1)
            killed.set()

    def before_round(round_num):
        if round_num == 1:
            threading.Thread(target=kill).start()
        elif round_num == 2:
            ended.set()
            assert killed.is_set()

    weights = stock.train(context, cohorts, before_round)
    assert context.ready_workers() == (workers.addresses[0],)
    np.testing.assert_allclose(weights, expected, atol=1e-6)


def test_a_worker_that_comes_back_is_used_again(workers, connect):
    context = connect(workers.addresses)
    workers.signal(0)
    assert context.invoke(total, [1, 2, 3]) == 6
    assert context.ready_workers() == (workers.addresses[1],)
    workers.start(0)
    assert context.invoke(total, [1, 2, 3]) == 6
    assert context.ready_workers() == tuple(workers.addresses)
    workers.signal(1)
    assert context.invoke(total, [1, 2, 3]) == 6
    assert context.ready_workers() == (workers.addresses[0],)


def test_a_worker_restarted_between_two_rounds(workers, connect):
    context = connect(workers.addresses[:1])
    assert context.invoke(total, [1, 2, 3]) == 6
    workers.signal(0)
    workers.start(0)
    assert context.invoke(total, [1, 2, 3]) == 6


def test_a_worker_that_hangs_is_given_up(workers, connect, monkeypatch):
    monkeypatch.setattr(client, "_WATCH_INTERVAL", 0.5)
    context = connect(workers.addresses, connect_timeout=0.5)
    workers.signal(0, signal.SIGSTOP)
    assert context.invoke(total, [1, 2, 3]) == 6
    assert context.ready_workers() == (workers.addresses[1],)
    workers.signal(0, signal.SIGCONT)


def test_unreachable_from_the_start(workers, connect):
    assert connect(workers.addresses).status() == "2 of 2 workers answer"
    workers.signal(1)
    context = connect(workers.addresses)
    assert context.status().startswith(f"1 of 2 workers answer; {workers.addresses[1]}: ")
    assert context.ready_workers() == (workers.addresses[0],)
    assert context.invoke(total, [1, 2, 3]) == 6


def test_no_worker_left(workers, connect):
    context = connect(workers.addresses)
    assert context.invoke(total, [1, 2, 3]) == 6
    workers.signal(0)
    workers.signal(1)
    begin = time.monotonic()
    with pytest.raises(remote.WorkersLostError, match="no worker answers: localhost:"):
        context.invoke(total, [1, 2, 3])
    with pytest.raises(remote.WorkersLostError):
        remote.create_context(workers.addresses)
    assert time.monotonic() - begin < 5
    workers.start(0)
    assert context.invoke(total, [1, 2, 3]) == 6
