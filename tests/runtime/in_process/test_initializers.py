"""Initial values of variables."""

import numpy as np
import pytest
import tensorflow as tf
import tensorflow_federated as tff

from tests.runtime.in_process.computations import run
from tff_partial.runtime.in_process import compiler, graphs
from tff_partial.runtime.in_process import context as in_process


@pytest.mark.parametrize("overwrite", [True, False])
def test_a_value_that_is_overwritten_is_not_initialised(overwrite):
    @tff.tensorflow.computation(np.float32)
    def computation(x):
        variable = tf.Variable(tf.random.normal([]))

        @tf.function
        def use(x):
            if overwrite:
                variable.assign(x)
            for _ in tf.range(3):
                variable.assign_add(x)
            return variable.read_value()

        return use(x)

    compiled = compiler.compile_to_native(computation)
    ops = {node.op for node in graphs.prepare(compiled.proto.tensorflow).graph_def.node}
    assert ("RandomStandardNormal" in ops) is not overwrite
    result = run(in_process.InProcessContext(), computation, 1.0)
    assert bool(result == 4.0) == overwrite
