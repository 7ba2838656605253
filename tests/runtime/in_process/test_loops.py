"""Reductions of data sets."""

import numpy as np
import tensorflow as tf
import tensorflow_federated as tff

from tests.runtime.in_process.computations import run
from tff_partial.runtime.in_process import context as in_process
from tff_partial.runtime.in_process import graphs


@tff.tensorflow.computation(tff.SequenceType(np.int32))
def count_and_sum(ds):
    count = tf.Variable(10)

    def reduce_fn(total, element):
        count.assign_add(1)
        return total + element

    total = ds.reduce(0, reduce_fn)
    with tf.control_dependencies([total]):
        return total, count.read_value()


def test_a_reduction_is_a_loop():
    proto = tff.framework.ConcreteComputation.get_proto(count_and_sum)
    ops = {node.op for node in graphs.prepare(proto.tensorflow).graph_def.node}
    assert "While" in ops
    assert "ReduceDataset" not in ops
    context = in_process.InProcessContext()
    assert run(context, count_and_sum, [1, 2, 3]) == (6, 13)
    assert run(context, count_and_sum, []) == (0, 10)
