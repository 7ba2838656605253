"""TFF's native form, by way of one tree."""

import numpy as np
import tensorflow as tf
import tensorflow_federated as tff
from tensorflow_federated.python.core.impl.types import type_serialization

from tests.runtime.in_process.computations import at_clients, local
from tff_partial.runtime.in_process import compiler


def graphs_of(computation):
    """The graphs of a compiled computation."""
    found = []

    def collect(block):
        proto = block.proto
        if proto.WhichOneof("computation") == "tensorflow":
            found.append(tf.compat.v1.GraphDef())
            assert proto.tensorflow.graph_def.Unpack(found[-1])
        for child in block.children():
            collect(child)

    collect(compiler.compile_to_native(computation))
    return found


def test_functions_are_inlined_and_nothing_else_is_done():
    @tff.tensorflow.computation(np.float32)
    def twice(x):
        @tf.function
        def double(x):
            return 2.0 * x * 3.0

        return double(double(x))

    [graph] = graphs_of(twice)
    ops = [node.op for node in graph.node]
    assert not graph.library.function
    assert ops.count("Mul") == 4  # no constant has been folded


def test_secure_and_plain_sums_become_aggregations():
    sums = tff.federated_computation(
        lambda x: (tff.federated_secure_sum_bitwidth(x, 8), tff.federated_sum(x)),
        at_clients(np.int32),
    )
    text = compiler.compile_to_native(sums).compact_representation()
    assert "secure" not in text
    assert "federated_sum" not in text
    assert "federated_aggregate" in text


def test_types_are_read_as_tff_reads_them():
    original = type_serialization.deserialize_type
    weights = tff.to_type([(np.float32, [3, 4]), (np.float32, [4])])
    add = local(lambda x, y: x[0] + x[1] + y[0], weights, weights)
    expected = add.type_signature
    assert compiler.compile_to_native(add).type_signature.is_equivalent_to(expected)
    assert type_serialization.deserialize_type is original
