"""The in-process runtime against TFF's C++ runtime: one computation for each intrinsic and
container."""

import collections
from typing import Any, NamedTuple

import attrs
import numpy as np
import pytest
import tensorflow as tf
import tensorflow_federated as tff

from tff_partial.runtime.in_process import context as in_process
from tff_partial.runtime.in_process import graphs
from tff_partial.runtime.workers import local_cpp


class Pair(NamedTuple):
    b: Any
    a: Any


@attrs.define
class Record:
    z: Any
    y: Any


@pytest.fixture(scope="module")
def cpp():
    context = local_cpp.create_context()
    yield context
    context.close()


@pytest.fixture(scope="module")
def here():
    return in_process.InProcessContext()


def run(context, computation, *args):
    with tff.framework.get_context_stack().install(context):
        return computation(*args)


def describe(value):
    """A value with the types of everything in it, to compare with `==`."""
    if isinstance(value, tf.data.Dataset):
        return "dataset", repr(value.element_spec), [describe(e) for e in value.as_numpy_iterator()]
    if isinstance(value, dict):
        return type(value), [(k, describe(v)) for k, v in value.items()]
    if attrs.has(type(value)):
        return type(value), describe(attrs.asdict(value, recurse=False))
    if isinstance(value, (list, tuple)):
        return type(value), [describe(v) for v in value]
    if isinstance(value, np.ndarray):
        return np.ndarray, value.dtype, value.shape, value.tolist()
    return type(value), value


def at_clients(type_spec, all_equal=False):
    return tff.FederatedType(type_spec, tff.CLIENTS, all_equal)


def at_server(type_spec):
    return tff.FederatedType(type_spec, tff.SERVER)


def vector(dtype, size):
    return tff.TensorType(dtype, [size])


SEQUENCE = tff.SequenceType(np.int32)
ROWS = tff.SequenceType(collections.OrderedDict(x=np.int32, a=np.float32))
STATISTIC = tff.to_type((np.float32, np.int32))
RECORD = tff.types.StructWithPythonType(
    [("z", np.float32), ("y", tff.types.StructWithPythonType([np.int32, np.int32], list))], Record
)


@tff.tensorflow.computation
def seven():
    return tf.constant(7)


@tff.tensorflow.computation(np.int32, np.int32)
def add(a, b):
    return a + b


@tff.tensorflow.computation(np.float32, np.float32)
def add_floats(a, b):
    return a + b


@tff.tensorflow.computation(np.float32)
def negative(a):
    return -a


@tff.tensorflow.computation
def no_statistic():
    return 0.0, tf.constant(0)


@tff.tensorflow.computation(STATISTIC, np.float32)
def count_one(statistic, value):
    return 2.0 * statistic[0] + value, statistic[1] + 1


@tff.tensorflow.computation(STATISTIC, STATISTIC)
def merge(a, b):
    return a[0] + b[0], a[1] + b[1]


@tff.tensorflow.computation(STATISTIC)
def report(statistic):
    return collections.OrderedDict(value=statistic[0], number=statistic[1])


@tff.tensorflow.computation(np.str_)
def look_up(key):
    keys, values = tf.constant(["a", "b"]), tf.constant([1, 2])
    table = tf.lookup.StaticHashTable(tf.lookup.KeyValueTensorInitializer(keys, values), -1)
    return table.lookup(key)


@tff.tensorflow.computation(np.float32)
def add_to_variables(x):
    scalar, pair = tf.Variable(3.0), tf.Variable([1.0, 2.0])
    with tf.control_dependencies([scalar.assign_add(x), pair.assign_add([x, x])]):
        return scalar.read_value(), pair.read_value()


@tff.tensorflow.computation(vector(np.float32, 3), np.int32)
def pick(state, key):
    return tf.gather(state, key), key


def local(fn, *types):
    return tff.tensorflow.computation(fn, *types)


def federated(fn, *types):
    return tff.federated_computation(fn, *types)


CASES = {
    "scalars": (local(lambda x, y: x * y, np.float32, np.float32), 2.0, np.float32(4)),
    "named_tuple": (local(lambda x: x, tff.to_type(Pair(np.float32, np.int32))), Pair(1.0, 2)),
    "names": (
        local(lambda x: x, tff.to_type(Pair(np.float32, np.int32))),
        collections.OrderedDict(b=1.0, a=2),
    ),
    "attrs": (local(lambda x: x, RECORD), Record(1.0, [2, 3])),
    "strings": (
        local(lambda x, y: (tf.strings.join([x, "b"]), y), np.str_, vector(np.str_, None)),
        "a",
        ["x", "yy"],
    ),
    "string_unchanged": (federated(lambda x: x, at_server(np.str_)), "abc"),
    "booleans": (local(lambda x: ~x, vector(np.bool_, 2)), [True, False]),
    "empty": (local(lambda: (tf.zeros([0, 3], tf.int64), ())),),
    "clients_unchanged": (
        federated(lambda x: x, at_clients(vector(np.float32, 2))),
        [[1.0, 2.0], np.array([3, 4], np.float32), tf.constant([5.0, 6.0])],
    ),
    "sum": (
        federated(lambda x: tff.federated_sum(x), at_clients(ROWS.element)),
        [collections.OrderedDict(x=1, a=0.5), collections.OrderedDict(x=3, a=2.5)],
    ),
    "extremes": (
        federated(lambda x: (tff.federated_max(x), tff.federated_min(x)), at_clients(np.float32)),
        [1.0, 4.0, 2.0],
    ),
    "mean": (federated(lambda x: tff.federated_mean(x), at_clients(np.float32)), [1.0, 2.0, 4.0]),
    "weighted_mean": (
        federated(
            lambda x, w: tff.federated_mean(x, w),
            at_clients(vector(np.float32, 2)),
            at_clients(np.float32),
        ),
        [[1.0, 2.0], [3.0, 5.0]],
        [1.0, 3.0],
    ),
    "broadcast_and_zip": (
        federated(
            lambda x, y: tff.federated_zip((tff.federated_broadcast(x), y)),
            at_server(np.float32),
            at_clients(np.int32),
        ),
        2.0,
        [1, 2],
    ),
    "value": (
        federated(
            lambda x: (tff.federated_value(3, tff.SERVER), tff.federated_value(4, tff.CLIENTS), x),
            at_clients(np.int32),
        ),
        [1, 2],
    ),
    "sum_of_a_value": (
        federated(
            lambda x: (tff.federated_sum(tff.federated_value(4, tff.CLIENTS)), x),
            at_clients(np.int32),
        ),
        [1, 2],
    ),
    "eval": (
        federated(
            lambda x: (
                tff.federated_eval(seven, tff.SERVER),
                tff.federated_eval(seven, tff.CLIENTS),
                x,
            ),
            at_clients(np.int32),
        ),
        [1, 2],
    ),
    "all_equal": (
        federated(
            lambda x, y: (tff.federated_map(local(lambda a: a + 1, np.int32), x), y),
            at_clients(np.int32, all_equal=True),
            at_clients(np.int32),
        ),
        5,
        [1, 2],
    ),
    "aggregate": (
        federated(
            lambda x: tff.federated_aggregate(x, no_statistic(), count_one, merge, report),
            at_clients(np.float32),
        ),
        [1.5],
    ),
    "select": (
        federated(
            lambda keys, last, state: tff.federated_select(keys, last, state, pick),
            at_clients(vector(np.int32, 2)),
            at_server(np.int32),
            at_server(vector(np.float32, 3)),
        ),
        [[0, 2], [1, 1]],
        3,
        np.array([1, 2, 3], np.float32),
    ),
    "aggregate_from_a_given_zero": (
        federated(
            lambda x, zero: tff.federated_aggregate(x, zero, add_floats, add_floats, negative),
            at_clients(np.float32),
            np.float32,
        ),
        [1.0, 2.0],
        0.5,
    ),
    "sequence": (local(lambda ds: ds.reduce(0, lambda a, b: a + b), SEQUENCE), [1, 2, 3]),
    "sequence_result": (
        local(lambda ds: ds.batch(2), ROWS),
        [collections.OrderedDict(x=1, a=2.0), collections.OrderedDict(x=3, a=4.0)],
    ),
    "sequence_reduce": (
        federated(lambda ds: tff.sequence_reduce(ds, seven(), add), SEQUENCE),
        [1, 2],
    ),
    "table": (
        federated(lambda x: tff.federated_map(look_up, x), at_clients(np.str_)),
        ["a", "b", "c"],
    ),
    "variables": (
        federated(lambda x: tff.federated_map(add_to_variables, x), at_clients(np.float32)),
        [1.0, 2.0, 3.0],
    ),
}


@pytest.mark.parametrize("name", CASES)
def test_equals_cpp(name, here, cpp):
    computation, *args = CASES[name]
    assert describe(run(here, computation, *args)) == describe(run(cpp, computation, *args))
    assert describe(run(here, computation, *args)) == describe(run(here, computation, *args))


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


def double(ds):
    return tff.sequence_map(local(lambda a: 2 * a, np.int32), ds)


@pytest.mark.parametrize(
    ("computation", "args", "expected"),
    [
        (federated(double, SEQUENCE), [[1, 2]], [2, 4]),
        (federated(lambda x: tff.sequence_sum(x), SEQUENCE), [[1, 2, 3]], 6),
        (federated(lambda x: tff.federated_broadcast(x), at_server(np.int32)), [5], 5),
        (federated(lambda x: tff.federated_secure_sum(x, 10), at_clients(np.int32)), [[1, 6]], 7),
        (
            federated(lambda x: tff.federated_secure_sum_bitwidth(x, 4), at_clients(np.int32)),
            [[1, 6]],
            7,
        ),
        (federated(lambda x: tff.federated_sum(x), at_clients(np.int32)), [[]], 0),
    ],
)
def test_what_cpp_refuses(here, computation, args, expected):
    result = run(here, computation, *args)
    assert (list(result) if isinstance(result, tf.data.Dataset) else result) == expected


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
