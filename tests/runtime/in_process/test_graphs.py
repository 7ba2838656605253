"""TFF's graphs, prepared for a function that threads share."""

from typing import Any

import numpy as np
import tensorflow as tf
import tensorflow_federated as tff

from tff_partial.runtime.in_process import graphs


def test_iterations_of_loops_do_not_overlap():
    @tff.tensorflow.computation(np.int32)
    def squares(n: Any) -> Any:
        step = lambda i, total: (i + 1, total + i * i)  # noqa: E731
        return tf.while_loop(lambda i, _: i < n, step, (0, 0))[1]

    message = tff.framework.serialize_computation(squares).tensorflow
    graph = graphs.prepare(message).graph_def
    bodies = [graph.node, *(f.node_def for f in graph.library.function)]
    loops = [n for body in bodies for n in body if n.op in ("While", "StatelessWhile")]
    assert [node.attr["parallel_iterations"].i for node in loops] == [1]
