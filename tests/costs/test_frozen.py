"""Costs of frozen layers, by the formulas of `costs.blocks` for the layers that are trained."""

import tensorflow as tf

from tff_partial import costs
from tff_partial.core.model import ModelSpec

layers = tf.keras.layers
FROZEN = {"trainable": False}


def measured(*create, shape=(5,)):
    return costs.measure(ModelSpec(lambda: tf.keras.Sequential([c() for c in create]), shape))


def operations(block):
    return block.forward, block.error, block.backward, block.update, block.activations


def test_before_everything_that_is_trained_there_is_a_forward_pass_only():
    first, last = measured(lambda: layers.Dense(4, **FROZEN), lambda: layers.Dense(3))
    assert operations(first) == (4 * 5 + 4, 0, 0, 0, 0)
    assert (first.parameters, first.statistics) == (0, 0)
    assert operations(last) == (3 * 4 + 3, 2 * 3, 2 * 3 + 3 * 4, 3 * 4, 3)


def test_after_something_that_is_trained_the_error_is_passed_on():
    """What is trained may be of a kind that counts nothing itself, or have its weights inside."""
    error = 6 + 6 * 3
    for first, forward, shape in (
        (lambda: layers.Dense(4), 6 * 4 + 6, (5,)),
        (lambda: layers.BatchNormalization(), 6 * 5 + 6, (5,)),
        (lambda: layers.LSTM(4), 6 * 4 + 6, (2, 5)),
    ):
        second = measured(
            first, lambda: layers.Dense(6, **FROZEN), lambda: layers.Dense(3), shape=shape
        )[1]
        assert operations(second) == (forward, error, error, 0, 6)


def test_statistics_of_frozen_layers_are_not_sent():
    counts = []
    for trainable in (True, False):
        norm = {"trainable": trainable}
        blocks = measured(lambda n=norm: layers.BatchNormalization(**n), lambda: layers.Dense(3))
        counts.append((blocks[0].parameters, blocks[0].statistics))
    assert counts == [(10, 10), (0, 0)]
