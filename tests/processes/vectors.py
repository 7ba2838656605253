"""Clients and vectors of two tensors, for rules that are called without a process."""

import numpy as np
import tensorflow as tf

from tff_partial.core.vectors import Vector
from tff_partial.processes.stateful_rules import Client


def vector(*values):
    """A vector whose tensors, [2] and [1], are filled with these two numbers."""
    return Vector(tf.fill([n], float(v)) for n, v in zip((2, 1), values))


def check(found, *expected):
    for tensor, value in zip(found.tensors, expected, strict=True):
        np.testing.assert_allclose(tensor, np.full(tensor.shape, value), rtol=1e-5, atol=1e-6)


def client(state=(), sent=(), selected=True, round_num=3, momentum=0.0, train=None):
    """A client at the model (1, 2) that makes four steps of the learning rate 0.5."""
    return Client(
        weights=vector(1, 2),
        sent=sent,
        state=state,
        selected=tf.constant(selected),
        round_num=tf.constant(round_num),
        learning_rate=lambda t: 0.5 ** (tf.cast(t, tf.float32) - 2),
        steps=tf.constant(4.0),
        momentum=momentum,
        train=train,
    )
