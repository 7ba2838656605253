"""The in-process runtime against TFF's own: a computation for each intrinsic and container."""

import collections
import concurrent.futures
import gc
import weakref
from typing import Any, NamedTuple

import attrs
import numpy as np
import pytest
import tensorflow as tf
import tensorflow_federated as tff

from tests.runtime.in_process.computations import (
    SEQUENCE,
    at_clients,
    at_server,
    create_round,
    federated,
    initial,
    local,
    records,
    run,
    vector,
)
from tff_partial.runtime.in_process import context as in_process


def rss():
    with open("/proc/self/statm") as statm:
        return int(statm.read().split()[1]) * 4096 / 2**20


def test_memory_is_flat():
    run_round, context, weights = create_round(), in_process.InProcessContext(2), initial()
    data = records(12)
    for round_num in range(530):
        if round_num == 30:
            before = rss()
        weights, _ = run(context, run_round, weights, data[: 1 + round_num % 12])
    assert rss() - before < 20


def test_what_is_compiled_goes_with_the_computation():
    context, run_round = in_process.InProcessContext(2), create_round()
    run(context, run_round, initial(), records(2))
    compiled = weakref.ref(context._get(run_round))
    assert compiled() is context._get(run_round)
    del run_round
    gc.collect()
    assert compiled() is None
    assert not context._compiled


@pytest.mark.parametrize("arguments", [{"client_parallelism": 0}, {"devices": ["GPU:99"]}])
def test_bad_arguments(arguments):
    with pytest.raises(ValueError, match="Received"):
        in_process.InProcessContext(**arguments)


class Pair(NamedTuple):
    b: Any
    a: Any


@attrs.define
class Record:
    z: Any
    y: Any


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


def test_no_collection_of_all_objects_while_computations_run(monkeypatch):
    before, inside, original = gc.get_threshold(), [], in_process._Compiled.run

    def observed(*arguments):
        inside.append(gc.get_threshold()[2])
        return original(*arguments)

    monkeypatch.setattr(in_process._Compiled, "run", observed)
    context, add = in_process.InProcessContext(), local(lambda x: x + 1, np.int32)
    with concurrent.futures.ThreadPoolExecutor(4) as pool:
        assert list(pool.map(lambda x: run(context, add, x), range(8))) == list(range(1, 9))
    assert inside == [2**31 - 1] * 8
    assert gc.get_threshold() == before
