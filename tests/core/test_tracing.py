"""Computations that are traced once and kept."""

import collections

import numpy as np
import pytest
import tensorflow as tf
import tensorflow_federated as tff

from tff_partial.core import tracing


class Store(dict):
    """Keeps what it is given in memory."""

    put = dict.__setitem__


def build(store, traced, name="double"):
    @tracing.computation(name, store)
    def computation(x, y):
        traced.append(name)
        weights = tff.learning.models.ModelWeights([2 * x], [tf.cast(y, tf.float32)])
        return collections.OrderedDict(weights=weights, others=(y, [x]))

    return computation


def result_type(computation, *types):
    return computation.fn_for_argument_type(tff.to_type(types)).type_signature


def test_what_is_kept_is_not_traced_again_and_is_the_same():
    store, traced = Store(), []
    first = build(store, traced)(np.float32(3), np.int32(4))
    again = build(store, traced)(np.float32(3), np.int32(4))
    assert traced == ["double"]
    assert first == again
    assert (first["weights"].trainable, first["others"]) == ([6.0], (4, [3.0]))
    assert type(again) is collections.OrderedDict


def test_types_have_their_containers():
    store, traced = Store(), []
    expected, actual = (result_type(build(store, traced), np.float32, np.int32) for _ in range(2))
    assert traced == ["double"]
    assert actual == expected
    assert actual.result["weights"].python_container is tff.learning.models.ModelWeights


@pytest.mark.parametrize("other", ["name", "type"])
def test_another_name_or_type_is_another_computation(other):
    store, traced = Store(), []
    result_type(build(store, traced), np.float32, np.int32)
    name, number = ("triple", np.int32) if other == "name" else ("double", np.int64)
    result_type(build(store, traced, name), np.float32, number)
    assert len(traced) == len(store) == 2


def test_an_unknown_container_is_traced_every_time():
    Pair = collections.namedtuple("Pair", "a b")
    store, traced = Store(), []

    def build_pair():
        @tracing.computation("pair", store)
        def pair(x):
            traced.append(x)
            return Pair(x, x)

        return pair

    for _ in range(2):
        assert build_pair()(np.int32(1)) == Pair(1, 1)
    assert len(traced) == 2
    assert not store


def test_the_store_is_that_of_the_block():
    outer, inner = Store(), Store()
    assert tracing.installed() is None
    with tracing.kept_in(outer):
        with tracing.kept_in(inner):
            assert tracing.installed() is inner
        assert tracing.installed() is outer
    assert tracing.installed() is None
