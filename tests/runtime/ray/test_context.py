"""The runtime on two nodes: the bits of `in_process`, whatever is lost.

With ALL_ALGORITHMS=1 in the environment all algorithms are compared.
"""

import os
import signal
import time

import numpy as np
import pytest
import tensorflow as tf
import tensorflow_federated as tff

from tests import tiny
from tests.runtime.in_process import computations
from tff_partial.algorithms import registry
from tff_partial.core.local_training import LocalTraining
from tff_partial.runtime.in_process.context import InProcessContext

pytest.importorskip("ray", reason="Ray is not installed: make ray")

from tests.runtime.ray import light
from tff_partial.runtime import RayOptions
from tff_partial.runtime.ray import cluster as clusters
from tff_partial.runtime.ray import pool as pools
from tff_partial.runtime.ray.cohort import Cohort

SIZES = (12, 7, 20, 5)
CLIENTS = 8
# Tiers; client states; several levels in a round; scores and sub-models.
ALGORITHMS = ["embracing", "scaffold", "partial_averaging", "feddse"]
if os.environ.get("ALL_ALGORITHMS"):
    ALGORITHMS = sorted(registry.ALGORITHMS)


@pytest.fixture(scope="module")
def here():
    context = InProcessContext(client_parallelism=2)
    yield context
    context.close()


def build(name):
    local = LocalTraining(steps=2, batch_size=4, learning_rate=0.1, momentum=0.9)
    params = {}
    if "tiers" in registry.ALGORITHMS[name].needs:
        params["tiers"] = registry.ALGORITHMS[name].params().tiers[:2]
    return tiny.build(name, local, tiny.spec(batch_norm=True), population=4, **params)


def two_rounds(context, process):
    with tff.framework.get_context_stack().install(context):
        state, _ = tiny.run(process, tiny.client_data(SIZES), rounds=2, tiers=2)
        return tiny.flat(process.get_model_weights(state))


def test_an_actor_sees_its_own_gpu_and_several_share_one(cluster, monkeypatch):
    """As far as placement goes: the head only says that it has two GPUs."""
    options = RayOptions(cluster.address, cpus_per_actor=0.1, gpus_per_actor=0.5)
    monkeypatch.setattr(pools, "ClientActor", light.LightActor)
    monkeypatch.setattr(pools, "versions", lambda: light.VERSIONS)
    connection = clusters.Cluster(options)
    try:
        pool = pools.Pool(options, connection)
        assert pool.place() == "4 actors on 1 node"
        assert sorted(member.introduction.gpus for member in pool.members) == ["0", "0", "1", "1"]
        pool.close()
    finally:
        connection.close()


@pytest.mark.parametrize("name", ALGORITHMS)
def test_algorithms_give_the_bits_of_in_process(name, context, here):
    process = build(name)
    expected = two_rounds(here, process)
    context.taken_part()
    for actual, wanted in zip(two_rounds(context, process), expected):
        np.testing.assert_array_equal(actual, wanted)
    assert context.taken_part() == {"actors": 2, "nodes": 2}
    assert context.place() == "2 actors on 2 nodes"


def test_what_a_user_should_know_before_a_run(context, cluster, monkeypatch):
    (line,) = context.notes(data_bytes=10)
    assert line == f"Ray: 2 actors on 2 nodes, cluster at {cluster.address}"
    monkeypatch.setattr(context._cluster, "dashboard", "127.0.0.1:8265")
    _, dashboard, warning = context.notes(data_bytes=10**15)
    assert dashboard == "Ray's dashboard: 127.0.0.1:8265"
    assert warning == (
        "warning: clients' data take up to 1000000.0 GB, this node's object store has 0.1; "
        "the rest goes to disk. ray start --object-store-memory=BYTES gives it more"
    )


def test_what_does_not_fit_into_the_store_goes_to_disk(context):
    @tff.tensorflow.computation(computations.RECORD)
    def last(record):
        return record.get_single_element()["x"][-1, -1]

    @tff.federated_computation(computations.at_clients(computations.RECORD))
    def each(records):
        return tff.federated_map(last, records)

    arrays = [np.full([100_000, computations.SIZE], i, np.float32) for i in range(6)]
    records = [tf.data.Dataset.from_tensors({"x": x}) for x in arrays]
    for _ in range(2):
        assert computations.run(context, each, records) == [*range(6)]
    assert spilled_bytes() > 0


def spilled_bytes():
    from ray._private import internal_api, state

    return internal_api.get_memory_info_reply(state.state).store_stats.spilled_bytes_total


@pytest.fixture(scope="module")
def run_round():
    return computations.create_round(num_steps=1000)


@pytest.fixture(scope="module")
def records():
    return computations.records(CLIENTS)


@pytest.fixture(scope="module")
def run(context, run_round, records):
    """Run a round on the actors."""
    return lambda: computations.run(context, run_round, computations.initial(), records)


@pytest.fixture(scope="module")
def expected(here, run_round, records):
    return computations.run(here, run_round, computations.initial(), records)


def assert_same(actual, expected):
    np.testing.assert_array_equal(actual[0], expected[0])
    assert actual[1] == expected[1]  # what clients return, in their order


def test_data_are_put_once_and_what_is_shared_once_a_round(run, context, expected):
    assert_same(run(), expected)
    before = context.bytes_put
    assert_same(run(), expected)
    weights = computations.initial().nbytes
    assert weights <= context.bytes_put - before < 1.01 * weights


def test_a_client_goes_to_the_actor_that_had_it(run, context):
    run()
    homes = dict(context._ray_clients.memory.homes)
    moved = 0
    for _ in range(3):
        run()
        now = context._ray_clients.memory.homes
        moved += sum(homes[name] != now[name] for name in homes)
        homes = dict(now)
    assert moved <= 3 * CLIENTS // 4


def test_a_clients_own_error_names_it_and_is_not_repeated(context, records):
    calls = []

    @tff.tensorflow.computation(computations.RECORD)
    def size(record):
        x = record.get_single_element()["x"]
        with tf.control_dependencies([tf.debugging.assert_less(tf.shape(x)[0], 10, "too many")]):
            return tf.identity(x[0, 0])

    @tff.federated_computation(computations.at_clients(computations.RECORD))
    def total(records):
        return tff.federated_sum(tff.federated_map(size, records))

    original = Cohort._receive
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(Cohort, "_receive", lambda *args: calls.append(1) or original(*args))
        with pytest.raises(tf.errors.InvalidArgumentError, match="(?s)client 7 of 8 .*too many"):
            computations.run(context, total, records)
    assert len(calls) <= CLIENTS


def test_partial_sums_are_equal_up_to_rounding(context, here, records):
    @tff.federated_computation(computations.at_clients(computations.RECORD))
    def total(records):
        first = computations.local(
            lambda record: tf.reduce_mean(record.get_single_element()["x"], axis=0),
            computations.RECORD,
        )
        return tff.federated_sum(tff.federated_map(first, records))

    context._ray_clients._partial_sums = True
    try:
        actual = computations.run(context, total, records)
    finally:
        context._ray_clients._partial_sums = False
    np.testing.assert_allclose(actual, computations.run(here, total, records), rtol=1e-6)


def test_a_stock_process_with_batches_in_its_data_sets(context, here):
    """Data sets of several elements go as graphs."""

    @tff.tensorflow.computation(tff.SequenceType(tff.TensorType(np.float32, [None, 2])))
    def count(batches):
        return batches.reduce(0.0, lambda n, batch: n + tf.reduce_sum(batch))

    @tff.federated_computation(computations.at_clients(count.type_signature.parameter))
    def total(clients):
        return tff.federated_sum(tff.federated_map(count, clients))

    arrays = [np.arange(2 * n, dtype=np.float32).reshape(n, 2) for n in (3, 5, 8)]
    clients = [tf.data.Dataset.from_tensor_slices(a).batch(2) for a in arrays]
    both = [computations.run(c, total, clients) for c in (context, here)]
    assert both[0] == both[1] == sum(a.sum() for a in arrays)


def kill_after_first_result(monkeypatch, find_process):
    """Kill -9 a process that `find_process(cohort)` returns, when the first result is there."""
    original, killed = Cohort._receive, []

    def receive(self, reference):
        original(self, reference)
        process = None if killed else find_process(self)
        if process is not None:
            killed.append(process)
            os.kill(process, signal.SIGKILL)

    monkeypatch.setattr(Cohort, "_receive", receive)
    return killed


def test_a_killed_actor_is_replaced_and_its_client_computed_again(
    run, context, expected, monkeypatch
):
    def busy(cohort):
        under_way = list(cohort._under_way.values())
        return under_way[0].member.introduction.process if under_way else None

    killed = kill_after_first_result(monkeypatch, busy)
    assert_same(run(), expected)
    assert len(killed) == 1
    monkeypatch.undo()
    until(lambda: assert_same(run(), expected) or context.place() == "2 actors on 2 nodes")


@pytest.mark.filterwarnings("ignore::ResourceWarning")  # Ray for Python 3.9 leaves files open
def test_a_round_survives_the_loss_of_a_node_and_uses_one_that_joins(
    run, context, cluster, expected, monkeypatch
):
    (node,) = cluster.worker_nodes
    raylet = node.all_processes["raylet"][0].process.pid
    killed = kill_after_first_result(monkeypatch, lambda cohort: raylet)
    assert_same(run(), expected)
    assert killed == [raylet]
    monkeypatch.undo()
    assert_same(run(), expected)
    assert context.place() == "1 actor on 1 node"
    cluster.add_node(num_cpus=1)
    context.taken_part()
    until(lambda: assert_same(run(), expected) or context.taken_part()["nodes"] == 2)


def until(is_so):
    """Wait until something is so."""
    end = time.monotonic() + 60
    while not is_so():
        assert time.monotonic() < end
        time.sleep(0.2)
