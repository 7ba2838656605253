"""Operations of a functional model, repeated on a narrow copy."""

import numpy as np
import tensorflow as tf

from tests.submodels.specs import block_spec, check_small_equals_zeroed, functional
from tff_partial.core import keras_compat
from tff_partial.submodels import op_layers


def layers_of(body):
    x = tf.keras.Input((4, 6))
    model = tf.keras.Model(x, body(x))
    return [layer for layer in model.layers if op_layers.is_op(layer)]


def test_operations_are_told_from_layers():
    relu, reshape = layers_of(lambda x: tf.reshape(tf.nn.relu(x), (-1, 24)))
    assert op_layers.name_of(relu) == "relu"
    assert [op_layers.is_made_anew(layer) for layer in (relu, reshape)] == [False, True]
    assert [op_layers.is_op(layer) for layer in (tf.keras.layers.ReLU(), None)] == [False, False]


def test_numbers_of_channels_in_a_shape_are_replaced_and_others_are_not():
    (reshape,) = layers_of(lambda x: tf.reshape(x, (-1, 4, 1, 6)))
    x = tf.keras.Input((4, 3))
    for given in (((x, (-1, 4, 1, 6)), {}), ((x,), {"shape": [-1, 4, 1, 6]})):
        assert op_layers.repeat(reshape, *given, (None, None, None, 3)).shape[1:] == (4, 1, 3)
    assert op_layers.repeat(reshape, (x, (-1, 4, 1, 3)), {}, (None,) * 4).shape[1:] == (4, 1, 3)


def test_constants_of_another_graph_are_copied():
    with tf.Graph().as_default(), keras_compat.tf2_behavior():
        constant = tf.constant([1.0, 2.0, 3.0])
        (add,) = layers_of(lambda x: x + 1.0)
    x = tf.keras.Input((3,))
    model = tf.keras.Model(x, op_layers.repeat(add, (x, constant), {}, ()))
    np.testing.assert_array_equal(model(np.zeros((1, 3), np.float32)), [[1, 2, 3]])


def test_a_flatten_that_is_written_with_channels():
    def body(x):
        x = tf.keras.layers.Conv2D(4, 1)(x)
        return tf.keras.layers.Dense(5)(tf.reshape(x, [-1, 4 * 4 * 4]))

    check_small_equals_zeroed(block_spec(functional((4, 4, 3), body)), training=True)
