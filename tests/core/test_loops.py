"""The loop of every graph."""

import pytest
import tensorflow as tf

from tff_partial.core import loops


@pytest.mark.parametrize(
    ("start", "stop", "stride"), [(0, 5, 1), (2, 11, 3), (4, 4, 1), (0, 10, 5)]
)
def test_it_is_a_for_loop_over_a_range(start, stop, stride):
    @tf.function(autograph=False)
    def run(stop):
        def body(i, value):
            numbers, count = value
            return 10 * numbers + tf.cast(i, tf.int64), count + 1

        return loops.fold(body, (tf.constant(0, tf.int64), tf.constant(0)), start, stop, stride)

    expected = 0
    for i in range(start, stop, stride):
        expected = 10 * expected + i
    numbers, count = run(tf.constant(stop))
    assert (int(numbers), int(count)) == (expected, len(range(start, stop, stride)))


def test_iterations_do_not_overlap():
    @tf.function(autograph=False)
    def run():
        return loops.fold(lambda i, value: value + 1, tf.constant(0), 0, tf.constant(3))

    graph = run.get_concrete_function().graph
    [loop] = [op for op in graph.get_operations() if "While" in op.type]
    assert loop.get_attr("parallel_iterations") == 1
