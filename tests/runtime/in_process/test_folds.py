"""Sums over clients, in their order."""

import os
import pathlib

import numpy as np
import pytest
import tensorflow as tf
import tensorflow_federated as tff

from tests.runtime.in_process.computations import create_round, initial, records, run
from tff_partial.runtime.in_process import context as in_process
from tff_partial.runtime.in_process import devices, folds, graphs, steps
from tff_partial.runtime.in_process.steps import SERVER


def test_parallelism_changes_no_bit():
    run_round, results = create_round(), []
    for threads in (1, 2, 4):
        context = in_process.InProcessContext(client_parallelism=threads)
        weights = initial()
        for _ in range(3):
            weights, counts = run(context, run_round, weights, records(17))
        assert counts == [4.0] * 17  # every client starts from its own variables
        results.append(weights)
    np.testing.assert_array_equal(results[0], results[1])
    np.testing.assert_array_equal(results[0], results[2])


def accumulate(emit, types=(np.float32, np.float32)):
    """The function of an accumulator and a client's value, as a graph."""
    computation = tff.tensorflow.computation(emit, *types)
    graph = graphs.prepare(tff.framework.serialize_computation(computation).tensorflow)
    leaves = [steps.Leaf(tff.to_type(t), SERVER) for t in types]
    step = steps.Step(graph.emit, leaves, tff.to_type(types[0]), SERVER, graph=graph)
    return steps.local_function(leaves, [step], step.outputs)


@pytest.mark.parametrize(
    ("emit", "kind", "expected"),
    [
        (lambda total, x: total + x, folds.SumFold, 10 + 1 + 2),
        (lambda total, x: tf.identity(total) + x, folds.SumFold, 10 + 1 + 2),
        (lambda total, x: x + total, folds.FunctionFold, 10 + 1 + 2),
        (lambda total, x: total + 2.0 * x, folds.FunctionFold, 10 + 2 + 4),
        (lambda total, x: 2.0 * total + x, folds.FunctionFold, 2 * (20 + 1) + 2),
        (lambda total, x: tf.maximum(total, x), folds.FunctionFold, 10),
    ],
)
def test_plain_sums_are_recognised(emit, kind, expected):
    fold = folds.prepare(accumulate(emit), devices.CPU)([tf.constant(10.0)], [])
    assert type(fold) is kind
    for value in (1.0, 2.0):
        fold.add([np.float32(value)])
    assert [float(total) for total in fold.finish()] == [expected]


@pytest.mark.parametrize("zero", [0.0, -0.0, 3.0])
@pytest.mark.parametrize("shape", [(), (5,), (2, 3)])
def test_the_accumulator_is_a_copy_of_the_zero_to_the_last_bit(zero, shape):
    value = np.full(shape, zero, np.float32)
    copy = folds._aligned_copy(value)
    assert (copy.shape, copy.dtype, copy.tobytes()) == (shape, value.dtype, value.tobytes())
    assert copy.ctypes.data % 64 == 0
    assert not np.shares_memory(copy, value)


def test_a_zero_takes_no_memory_before_a_client_is_added():
    def resident():
        return int(pathlib.Path("/proc/self/statm").read_text().split()[1])

    zero = np.zeros([25_000_000], np.float32)
    before = resident()
    fold = folds.SumFold([0], [zero])
    assert (resident() - before) * os.sysconf("SC_PAGESIZE") < 0.2 * zero.nbytes
    fold.add([np.ones_like(zero)])
    assert float(fold.finish()[0][-1]) == 1.0


def test_a_sum_that_broadcasts_is_a_function():
    types = tff.TensorType(np.float32, [3]), np.float32
    fold = folds.prepare(accumulate(lambda total, x: total + x, types), devices.CPU)(
        [tf.zeros([3])], []
    )
    fold.add([np.float32(2)])
    assert type(fold) is folds.FunctionFold
    np.testing.assert_array_equal(fold.finish()[0], [2.0] * 3)
