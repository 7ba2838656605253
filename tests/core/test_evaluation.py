"""Evaluation in several threads."""

import os
import threading
import time

import numpy as np
import tensorflow as tf
import tensorflow_federated as tff

from tests import tiny
from tff_partial.core import evaluation


def test_values_come_in_the_order_of_the_batches():
    mapper = evaluation._Mapper(lambda x: tf.reduce_sum(x), [tf.TensorSpec([None])], 7)
    batches = [(np.full(n, n, np.float32),) for n in range(1, 8)]
    assert [float(value) for value in mapper(batches)] == [n * n for n in range(1, 8)]


def test_a_function_is_never_called_by_two_threads_at_once(monkeypatch):
    # With oneDNN, two threads in the same kernel corrupt the memory.
    monkeypatch.setattr(os, "cpu_count", lambda: 4)
    mapper = evaluation._Mapper(lambda x: tf.reduce_sum(x), [tf.TensorSpec([None])], 40)
    names = {f.get_concrete_function().name for f in mapper._functions}
    busy, most, lock = {}, [], threading.Lock()

    def watched(function):
        def call(batch):
            with lock:
                busy[id(function)] = busy.get(id(function), 0) + 1
                most.append((busy[id(function)], sum(busy.values())))
            time.sleep(0.001)
            result = function(batch)
            with lock:
                busy[id(function)] -= 1
            return result

        return call

    mapper._functions = [watched(function) for function in mapper._functions]
    mapper([(np.ones(3, np.float32),)] * 40)
    assert len(names) == 4
    assert max(of_one for of_one, _ in most) == 1
    assert max(of_all for _, of_all in most) > 1


def test_one_batch_and_many_give_the_same():
    spec, (x, y) = tiny.spec(batch_norm=True), tiny.client_data(sizes=(23,))[0]
    model = spec.instantiate()
    weights = tff.learning.models.ModelWeights(
        [v.numpy() for v in model.trainable], [v.numpy() for v in model.statistics]
    )
    whole, small = (evaluation.build(spec, x, y, size)(weights) for size in (100, 2))
    np.testing.assert_allclose(whole.loss, small.loss, rtol=1e-6)
    assert whole.metrics == small.metrics
