"""Workarounds for Keras 2: what they change is put back."""

import random

import numpy as np
import pytest
import tensorflow as tf

import models
from tff_partial.core import keras_compat
from tff_partial.core import model as model_spec


def test_replaced_calls_are_put_back_after_an_error():
    layer = tf.keras.layers.Dense(2)
    layer.build([None, 3])
    expected = layer(tf.ones([1, 3]))

    def fail():
        with keras_compat.replaced_calls([layer], lambda _: tf.zeros_like):
            assert not tf.reduce_any(layer.call(tf.ones([1, 3])) != 0)
            raise RuntimeError

    with pytest.raises(RuntimeError):
        fail()
    tf.debugging.assert_equal(layer(tf.ones([1, 3])), expected)


def test_training_is_passed_to_layers_that_take_it():
    x = tf.ones([1, 100])
    dropout = tf.keras.layers.Dropout(0.5)
    assert tf.reduce_any(keras_compat.call(dropout, x, training=True) != x)
    tf.debugging.assert_equal(keras_compat.call(dropout, x, training=False), x)
    tf.debugging.assert_equal(keras_compat.call(tf.keras.layers.Flatten(), x, training=True), x)


def test_seeded_weights_leave_the_callers_randomness_alone():
    def weights(seed):
        with keras_compat.seeded(seed):
            layer = tf.keras.layers.Dense(2)
            layer.build([None, 3])
        return layer.kernel

    random.seed(5)
    expected = random.random()
    random.seed(5)
    tf.debugging.assert_equal(weights(1), weights(1))
    assert tf.reduce_any(weights(1) != weights(2))
    assert random.random() == expected


def test_keras_is_as_before_outside():
    from keras.src import backend

    asked = backend.tf.compat.v1.executing_eagerly_outside_functions
    with tf.Graph().as_default():
        with keras_compat.tf2_behavior():
            assert backend.tf.compat.v1.executing_eagerly_outside_functions()
        assert not backend.tf.compat.v1.executing_eagerly_outside_functions()
    assert backend.tf.compat.v1.executing_eagerly_outside_functions is asked


def test_dropout_is_a_function_of_the_record():
    dropout = model_spec.ModelSpec(
        lambda: tf.keras.Sequential([tf.keras.layers.Dropout(0.5), tf.keras.layers.Dense(3)]), (5,)
    )
    model = dropout.instantiate()
    x = tf.ones([4, 5])
    outputs = []
    for seed in ([1, 1], [1, 1], [1, 2]):
        model.set_seed(seed)
        outputs.append(model.forward(x, training=True).numpy())
    assert np.array_equal(outputs[0], outputs[1])
    assert not np.array_equal(outputs[0], outputs[2])


def test_a_recurrent_layer_has_one_step_in_flight():
    """With Keras's 32, gradients of kernels pile up before they are added."""
    spec = model_spec.ModelSpec(lambda: models.create("bilstm", (12,), 2, 0.1), (12,), "int32")
    with tf.Graph().as_default():
        model = spec.instantiate()
        forward = tf.function(lambda x: model.forward(x, training=True))
        graph = forward.get_concrete_function(tf.TensorSpec([None, 12], tf.int32)).graph
    graph_def = graph.as_graph_def()
    nodes = [*graph_def.node, *(node for f in graph_def.library.function for node in f.node_def)]
    loops = [node for node in nodes if node.op.endswith("While")]
    assert {node.attr["parallel_iterations"].i for node in loops} == {1}
