"""Keras's seeds, modes and random layers, as the library makes them behave."""

import contextlib

import numpy as np
import tensorflow as tf
from keras.src import backend

import models
from tff_partial.core import keras_compat
from tff_partial.core import model as model_spec


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


def test_initial_values_follow_the_seed_and_the_callers_draws_go_on():
    def kernel():
        layer = tf.keras.layers.Dense(3)
        layer.build((None, 5))
        return layer.kernel.numpy()

    with keras_compat.seeded(1):
        first, second = kernel(), kernel()
    assert not np.array_equal(first, second)
    with keras_compat.seeded(1):
        np.testing.assert_array_equal(kernel(), first)
        with keras_compat.seeded(2):
            assert not np.array_equal(kernel(), second)
        np.testing.assert_array_equal(kernel(), second)


def test_keras_takes_a_plain_graph_for_tf_2_inside_only():
    compat = backend.tf.compat.v1
    before = compat.executing_eagerly_outside_functions, compat.while_loop
    with tf.Graph().as_default():
        assert not compat.executing_eagerly_outside_functions()
        with contextlib.suppress(RuntimeError), keras_compat.tf2_behavior():
            assert compat.executing_eagerly_outside_functions()
            raise RuntimeError
    assert (compat.executing_eagerly_outside_functions, compat.while_loop) == before


def test_a_layer_is_told_of_training_if_it_asks():
    class Plain(tf.keras.layers.Layer):
        def call(self, x):
            return x + 1

    ones = tf.ones([2, 8])
    np.testing.assert_array_equal(keras_compat.call(Plain(), ones, training=True), ones + 1)
    dropout = tf.keras.layers.Dropout(0.5)
    np.testing.assert_array_equal(keras_compat.call(dropout, ones, training=False), ones)
    assert not np.array_equal(keras_compat.call(dropout, ones, training=True), ones)


def test_calls_are_in_training_mode_while_they_are_replaced():
    layer = tf.keras.layers.BatchNormalization()
    x = tf.constant([[1.0], [3.0]])
    before = layer(x, training=False)
    with keras_compat.replaced_calls([layer], keras_compat.training_call):
        np.testing.assert_allclose(layer(x, training=False), [[-1.0], [1.0]], atol=1e-3)
    layer.moving_mean.assign([0.0]), layer.moving_variance.assign([1.0])
    np.testing.assert_array_equal(layer(x, training=False), before)


def test_a_recurrent_layer_has_one_step_in_flight():
    """With Keras's 32, gradients of kernels pile up before they are added."""
    spec = model_spec.ModelSpec(lambda: models.create("bilstm", (12,), 2, 0.1), (12,), "int32")
    with tf.Graph().as_default():
        model = spec.instantiate()
        forward = tf.function(lambda x: model.forward(x, training=True))
        graph = forward.get_concrete_function(tf.TensorSpec([None, 12], tf.int32)).graph
    functions = graph.as_graph_def().library.function
    loops = [node for f in functions for node in f.node_def if node.op.endswith("While")]
    assert {node.attr["parallel_iterations"].i for node in loops} == {1}
