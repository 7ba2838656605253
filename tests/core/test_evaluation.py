"""Evaluation in several threads."""

import os
import threading
import time

import numpy as np
import pytest
import tensorflow as tf
import tensorflow_federated as tff

from tests import tiny
from tff_partial.core import evaluation
from tff_partial.core.model import ModelSpec


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


def test_an_error_in_a_thread_is_raised():
    mapper = evaluation._Mapper(lambda x: tf.reduce_sum(x), [tf.TensorSpec([None])], 3)
    with pytest.raises(TypeError):
        mapper([(np.ones(3, np.float32),), (np.ones([2, 2], np.float32),)])


def test_a_sample_is_a_function_of_the_seed_and_grows_with_its_size():
    small, large = (evaluation.draw_sample(50, size, 3) for size in (10, 20))
    assert (len({*small}), len({*large})) == (10, 20)
    assert {*small} < {*large} < {*range(50)}
    assert small.tolist() == sorted(small) == evaluation.draw_sample(50, 10, 3).tolist()
    assert small.tolist() != evaluation.draw_sample(50, 10, 4).tolist()
    assert evaluation.draw_sample(50, None, 3) is evaluation.draw_sample(50, 50, 3) is None


def test_some_of_the_examples_are_tested_as_if_there_were_no_others():
    spec, (x, y) = tiny.spec(), tiny.client_data(sizes=(23,))[0]
    weights, chosen = spec.instantiate().weights, np.array([1, 4, 5, 20, 22])
    expected = evaluation.build(spec, x[chosen], y[chosen], 2)(weights)
    evaluate = evaluation.build(spec, x, y, 2)
    assert evaluate(weights, chosen) == expected
    assert (expected.examples, evaluate(weights).examples) == (5, 23)


@pytest.mark.parametrize(
    ("layers", "size"),
    [
        ([tf.keras.layers.Conv2D(8, 3), tf.keras.layers.GlobalAveragePooling2D()], 100),
        ([tf.keras.layers.Conv2D(8, 3), tf.keras.layers.Flatten()], 500),
    ],
    ids=["convolutions", "mostly dense"],
)
def test_the_kind_of_most_weights_decides_the_batch(layers, size):
    def create():
        kinds = [layer.from_config(layer.get_config()) for layer in layers]
        return tf.keras.Sequential([*kinds, tf.keras.layers.Dense(4)])

    model = ModelSpec(create, (6, 6, 1)).instantiate()
    assert evaluation._suitable_batch(model) == size


def test_one_batch_and_many_give_the_same():
    spec, (x, y) = tiny.spec(batch_norm=True), tiny.client_data(sizes=(23,))[0]
    model = spec.instantiate()
    weights = tff.learning.models.ModelWeights(
        [v.numpy() for v in model.trainable], [v.numpy() for v in model.statistics]
    )
    whole, small = (evaluation.build(spec, x, y, size)(weights) for size in (100, 2))
    np.testing.assert_allclose(whole.loss, small.loss, rtol=1e-6)
    assert whole.metrics == small.metrics


def test_the_accuracy_on_each_class_is_that_of_a_confusion_table():
    spec, (x, y) = tiny.spec(), tiny.client_data(sizes=(60,))[0]
    weights = spec.instantiate().weights
    plain, by_class = (evaluation.build(spec, x, y, 7, classes=classes) for classes in (0, 4))
    kernel, bias, last, logits_bias = (v.numpy() for v in weights.trainable)
    predicted = np.argmax(np.maximum(x @ kernel + bias, 0) @ last + logits_bias, axis=1)
    for chosen in (None, np.flatnonzero(y != 1)):
        found, of = by_class(weights, chosen), slice(None) if chosen is None else chosen
        table = np.zeros([4, 4])
        np.add.at(table, (y[of], predicted[of]), 1)
        with np.errstate(invalid="ignore"):
            expected = np.diag(table) / table.sum(axis=1)
        np.testing.assert_allclose(found.of_classes, expected)
        assert np.isnan(found.of_classes[3])
        assert found._replace(of_classes=None) == plain(weights, chosen)
