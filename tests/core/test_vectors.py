"""The arithmetic of vectors, and choosing between structures of them."""

import collections

import numpy as np
import pytest
import tensorflow as tf

from tff_partial.core import vectors
from tff_partial.core.vectors import Vector

A, B = [1.0, -2.0], [[3.0], [0.5]]
X, Y = Vector([tf.constant(A), tf.constant(B)]), Vector([tf.constant(A) * 2, tf.constant(B) - 1])


def check(vector, *expected):
    for tensor, values in zip(vector.tensors, expected, strict=True):
        np.testing.assert_allclose(tensor, values)


def test_arithmetic_is_that_of_each_tensor():
    a, b = np.array(A), np.array(B)
    check(X + Y, 3 * a, 2 * b - 1)
    check(X - Y, -a, np.ones([2, 1]))
    check(0.5 * X, 0.5 * a, 0.5 * b)
    check(X * tf.constant(2.0) / 4, a / 2, b / 2)
    check(X.zeros(), 0 * a, 0 * b)
    check(X.map(tf.maximum, Y), np.maximum(a, 2 * a), b)


@pytest.mark.parametrize("first", [True, False])
def test_one_of_two_structures_is_chosen(first):
    yes, no = (collections.OrderedDict(c=x, steps=tf.constant(n)) for x, n in ((X, 1), (Y, 2)))
    chosen = tf.function(lambda c: vectors.unwrap(vectors.choose(c, yes, no)))(tf.constant(first))
    check(Vector(chosen["c"]), *(X if first else Y).tensors)
    assert int(chosen["steps"]) == (1 if first else 2)


def test_zeros_have_the_structure():
    zeros = vectors.zeros({"c": X, "steps": tf.constant(3)})
    check(zeros["c"], np.zeros(2), np.zeros([2, 1]))
    assert int(zeros["steps"]) == 0


def test_wrapped_and_unwrapped_again():
    plain = collections.OrderedDict(c=[1, 2], inner={"h": [3]}, steps=4)
    wrapped = vectors.wrap(plain)
    assert (wrapped["c"].tensors, wrapped["inner"]["h"].tensors) == ([1, 2], [3])
    assert (type(wrapped), wrapped["steps"]) == (collections.OrderedDict, 4)
    assert vectors.unwrap(wrapped) == plain
