"""Arguments and results."""

import numpy as np
import pytest
import tensorflow as tf
import tensorflow_federated as tff

from tests.runtime.in_process.computations import WEIGHTS, initial, local, run, vector
from tff_partial.runtime.in_process import context as in_process


@pytest.mark.parametrize(
    "value", [np.zeros(3, np.float32), np.zeros(2, np.float64), [1.0, "a"], {"a": 1.0}]
)
def test_wrong_arguments(value):
    computation = tff.tensorflow.computation(lambda x: x, tff.TensorType(np.float32, [2]))
    with pytest.raises(TypeError):
        run(in_process.InProcessContext(), computation, value)


def test_wrong_data_set():
    computation = tff.tensorflow.computation(
        lambda ds: ds.reduce(0, lambda a, b: a + b), tff.SequenceType(np.int32)
    )
    with pytest.raises(TypeError, match="expected elements of int32"):
        run(in_process.InProcessContext(), computation, tf.data.Dataset.range(3))


def test_references_instead_of_copies():
    """A tensor that a computation only passes on comes back in the same memory."""
    computation = tff.federated_computation(
        lambda x: tff.federated_map(
            tff.tensorflow.computation(lambda y: y[0], [WEIGHTS, WEIGHTS]), x
        ),
        tff.FederatedType([WEIGHTS, WEIGHTS], tff.SERVER),
    )
    tensor = tf.constant(initial())
    result = run(in_process.InProcessContext(), computation, (tensor, tensor))
    assert np.shares_memory(result, np.asarray(tensor))
    assert not result.flags.writeable


@pytest.mark.parametrize("size", [6, 6000])
def test_what_was_returned_can_be_given_another_shape_or_a_wider_type(here, size):
    def returned():
        return run(here, local(lambda: tf.range(size)))

    twice = local(lambda x: 2 * x, vector(np.int64, size))
    np.testing.assert_array_equal(run(here, twice, returned()), 2 * np.arange(size))
    changed = returned()
    changed.shape = (2, size // 2)
    by_row = local(lambda x: tf.reduce_sum(x, 1), tff.TensorType(np.int32, [2, size // 2]))
    np.testing.assert_array_equal(
        run(here, by_row, changed), np.arange(size).reshape(2, -1).sum(axis=1)
    )
