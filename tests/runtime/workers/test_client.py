"""The client of a worker: it watches calls and keeps few executors."""

import signal

import numpy as np
import pytest
import tensorflow as tf
import tensorflow_federated as tff
from tensorflow_federated.proto.v0 import executor_pb2

from tests import stock
from tests.runtime.workers.processes import CLIENTS_INT, total
from tff_partial.runtime.workers import client, contact, local_cpp, remote


def test_a_worker_that_hangs_is_asked_once_to_release_values(workers, connect, monkeypatch):
    context = connect(workers.addresses[:1], connect_timeout=1.0)
    assert context.invoke(total, [1, 2, 3]) == 6
    monkeypatch.setattr(client, "_WATCH_INTERVAL", 0.3)
    looks = []
    monkeypatch.setattr(contact, "is_alive", lambda *address: bool(looks.append(address)))
    stub = context._workers[0]._stub
    workers.signal(0, signal.SIGSTOP)
    for _ in range(20):
        stub.dispose(executor_pb2.DisposeRequest())
    assert len(looks) == 1
    with pytest.raises(remote.WorkersLostError, match="localhost:.*: it no longer answers"):
        context.invoke(total, [1, 2, 3])
    assert len(looks) == 1, "it is known to be lost"
    workers.signal(0, signal.SIGCONT)


def test_an_error_in_a_graph_is_not_taken_for_a_lost_worker(workers, connect):
    @tff.tensorflow.computation(np.int32)
    def checked(x):
        with tf.control_dependencies([tf.debugging.assert_positive(x, "not positive")]):
            return tf.identity(x)

    @tff.federated_computation(CLIENTS_INT)
    def checked_total(values):
        return tff.federated_sum(tff.federated_map(checked, values))

    context = connect(workers.addresses)
    with pytest.raises(Exception, match="not positive"):
        context.invoke(checked_total, [1, 2, -3])
    assert context.ready_workers() == tuple(workers.addresses)
    assert context.invoke(checked_total, [1, 2, 3]) == 6


def test_keeps_few_executors_when_the_number_of_clients_changes():
    context = local_cpp.create_context()
    stock.train(context, [stock.client_data(clients) for clients in range(1, 7)])
    assert len(context._client._factory._executors) == 3
    context.close()


def test_a_worker_that_computes_for_long_still_answers(monkeypatch):
    monkeypatch.setattr(client, "_WATCH_INTERVAL", 0.2)
    looks = []
    is_alive = contact.is_alive
    monkeypatch.setattr(
        contact, "is_alive", lambda *args: looks.append(is_alive(*args)) or looks[-1]
    )
    context = local_cpp.create_context()
    stock.train(context, [stock.client_data(2, repeat=900)])
    context.close()
    assert looks, "the computation was too short to be looked at"
    assert all(looks)
