"""Sequences: elements in the order of `tf.nest` and of TFF's types."""

import collections

import numpy as np
import tensorflow as tf
import tensorflow_federated as tff

from tff_partial.runtime.in_process import sequences, steps
from tff_partial.runtime.in_process.steps import SERVER

ELEMENT = tff.to_type(collections.OrderedDict(z=np.int32, a=(np.float32, np.float32)))


def rows(count):
    """Elements whose names are not in sorted order."""
    return [
        collections.OrderedDict(z=np.int32(i), a=(np.float32(i), np.float32(-i)))
        for i in range(count)
    ]


def test_a_sequence_and_back():
    dataset = tf.data.Dataset.from_tensor_slices(tf.nest.map_structure(lambda *v: [*v], *rows(3)))
    same = sequences.to_dataset(tf.data.experimental.to_variant(dataset), ELEMENT)
    assert list(same.as_numpy_iterator()) == rows(3)
    assert list(next(iter(same))) == ["z", "a"]


def test_leaves_are_taken_and_packed_in_the_order_of_the_type():
    element = rows(3)[2]
    leaves = sequences._flatten(ELEMENT, element)
    assert leaves == [2, 2.0, -2.0]
    assert sequences._pack(ELEMENT, iter(leaves)) == element


def test_a_constant_is_a_step():
    leaf = sequences.constant(np.array([1, 2]), tff.TensorType(np.int32, [2]), SERVER)
    function = steps.local_function([], steps.needed_steps([leaf]), [leaf])
    (tensor,) = function.emit([], [])
    np.testing.assert_array_equal(tensor, [1, 2])
    assert (tensor.dtype, leaf.region) == (tf.int32, SERVER)


def test_how_leaves_are_passed():
    assert sequences.tensor_spec(tff.SequenceType(ELEMENT)) == tf.TensorSpec([], tf.variant)
    partly = tff.TensorType(np.int64, [None, 3])
    assert sequences.tensor_spec(partly) == tf.TensorSpec([None, 3], tf.int64)
