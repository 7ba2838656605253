"""An actor in this process, with a store that is a list."""

import numpy as np
import pytest
import tensorflow as tf

from tests.runtime.in_process import computations
from tff_partial.runtime.in_process import compiler, planner
from tff_partial.runtime.ray import actor as actors
from tff_partial.runtime.ray import wire
from tff_partial.runtime.ray.messages import Call, Kept

COUNT = 3


class Objects:
    """Stands in for Ray's store; counts how often an object is fetched."""

    def __init__(self):
        self.values, self.fetched = [], []

    def put(self, value):
        self.values.append(value)
        return Kept(b"%d" % len(self.values), len(self.values) - 1)

    def get(self, reference):
        self.fetched.append(reference)
        return self.values[reference]


@pytest.fixture(scope="module")
def objects():
    return Objects()


@pytest.fixture(scope="module")
def actor(objects):
    settings = actors.Settings(threads=1, uses_gpu=False, environment={})
    with pytest.MonkeyPatch.context() as patch:  # this process has its own settings
        patch.setattr(actors, "_configure", lambda settings: "/device:CPU:0")
        return actors.ClientActor(settings, objects.get)


@pytest.fixture(scope="module")
def call(objects):
    block = compiler.compile_to_native(computations.create_round())
    (level, *_) = planner.make_plan(block).levels
    assert [leaf.region.name for leaf in level.clients.captures] == ["server", "clients"]
    plan = objects.put(block.proto.SerializeToString())
    shared = objects.put([computations.initial()])
    variants = map(tf.data.experimental.to_variant, computations.records(COUNT))
    data = [[objects.put(wire.pack_sequence(variant))] for variant in variants]
    return Call(plan, 0, shared, [0], data, add_up=False)


def test_clients_train_as_they_do_in_process(actor, call, objects):
    reply = actor.run(call)
    assert reply.failure is None
    assert reply.seconds > 0
    for record, values in zip(computations.records(COUNT), reply.results):
        x, weights = record.get_single_element()["x"].numpy(), computations.initial()
        trained = weights.astype(np.float64)
        for _ in range(3):
            trained += 0.01 * x.T @ (x @ trained)
        arrays = [value for value in values if value.ndim == 2]
        np.testing.assert_allclose(arrays[0], trained - weights, rtol=1e-3, atol=1e-4)
    fetched = list(objects.fetched)
    actor.run(call)
    assert objects.fetched == fetched  # everything is remembered


def test_results_can_be_added_up(actor, call):
    apart, together = actor.run(call).results, actor.run(call._replace(add_up=True)).results
    assert len(together) == 1
    for column, total in zip(zip(*apart), together[0]):
        np.testing.assert_allclose(total, np.sum(column, axis=0), rtol=1e-6)


def test_a_clients_error_says_which_and_what(actor, call, objects):
    empty = tf.data.Dataset.range(0).map(lambda i: {"x": tf.zeros([1, computations.SIZE])})
    bad = objects.put(wire.pack_sequence(tf.data.experimental.to_variant(empty)))
    reply = actor.run(call._replace(clients=[call.clients[0], [bad], call.clients[1]]))
    assert len(reply.results) == 1
    assert reply.failure.client == 1
    assert reply.failure.code == tf.errors.INVALID_ARGUMENT


def test_the_least_recently_used_goes_first():
    remembered = actors._Remembered(2)
    made = []

    def get(name):
        return remembered.get(Kept(name, name), lambda reference: made.append(name) or name)

    for name in (b"a", b"b", b"a", b"c", b"a", b"b"):
        assert get(name) == name
    assert made == [b"a", b"b", b"c", b"b"]


def test_versions_are_those_that_results_depend_on():
    names = [name for name, _ in actors.versions()]
    assert names == ["tensorflow", "tensorflow_federated", "numpy", "tff_partial's runtime"]
    assert actors.versions() == actors.versions()
