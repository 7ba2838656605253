"""Clients in threads, finished in their order."""

import _thread
import threading
import time

import numpy as np
import pytest
import tensorflow as tf
import tensorflow_federated as tff

from tests.runtime.in_process.computations import run
from tff_partial.runtime.in_process import context as in_process
from tff_partial.runtime.in_process import parallel


def test_an_error_names_the_client():
    @tff.tensorflow.computation(np.int32)
    def check(x):
        with tf.control_dependencies([tf.debugging.assert_less(x, 5, "too many")]):
            return tf.identity(x)

    computation = tff.federated_computation(
        lambda x: tff.federated_map(check, x), tff.FederatedType(np.int32, tff.CLIENTS)
    )
    for context in (in_process.InProcessContext(1), in_process.InProcessContext(3)):
        with pytest.raises(tf.errors.InvalidArgumentError, match=r"(?s)client 2 of 6.*too many"):
            run(context, computation, [1, 2, 9, 3, 8, 4])
        assert run(context, computation, [1, 2]) == [1, 2]


def test_in_order_is_bounded():
    running, most, finished = [0], [0], []
    lock = threading.Lock()

    def work(position, thread):
        with lock:
            running[0] += 1
            most[0] = max(most[0], running[0] - len(finished))
        time.sleep(0.02 if position == 0 else 0.0)
        return position * 10

    def finish(position, result):
        assert result == position * 10
        finished.append(position)

    threads = parallel.ClientThreads(3)
    threads.run_in_order(work, finish, 50)
    threads.close()
    assert finished == list(range(50))
    assert most[0] <= 9


def test_an_interrupt_begins_no_more_clients():
    begun = []

    def work(client, thread):
        begun.append(client)
        if client == 0:
            _thread.interrupt_main()
        time.sleep(0.05)

    threads = parallel.ClientThreads(2)
    with pytest.raises(KeyboardInterrupt):
        threads.run_in_order(work, lambda client, result: None, 1000)
    threads.close()
    assert len(begun) < 20
