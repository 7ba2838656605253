"""How the in-process runtime runs: parallelism, order, errors, memory, references, devices."""

import _thread
import collections
import gc
import threading
import time
import weakref

import numpy as np
import pytest
import tensorflow as tf
import tensorflow_federated as tff

from tff_partial.runtime.in_process import context as in_process
from tff_partial.runtime.in_process import devices, execution, graphs, parallel, planner

SIZE = 50
RECORD = tff.SequenceType(collections.OrderedDict(x=tff.TensorType(np.float32, [None, SIZE])))
WEIGHTS = tff.TensorType(np.float32, [SIZE, SIZE])


def create_round():
    """A round whose clients train variables and whose sums depend on their order."""

    @tff.tensorflow.computation(WEIGHTS, RECORD)
    def train(weights, record):
        trained = tf.Variable(tf.random.normal([SIZE, SIZE]), name="trained")
        steps = tf.Variable(1.0, name="steps")

        @tf.function
        def loop(weights, record):
            trained.assign(weights)
            x = record.get_single_element()["x"]
            for _ in tf.range(3):
                trained.assign_add(0.01 * tf.matmul(x, tf.matmul(x, trained), transpose_a=True))
                steps.assign_add(1.0)
            return trained - weights, steps.read_value()

        return loop(weights, record)

    @tff.tensorflow.computation(WEIGHTS, WEIGHTS)
    def update(weights, total):
        return weights + 0.01 * total

    @tff.federated_computation(
        tff.FederatedType(WEIGHTS, tff.SERVER), tff.FederatedType(RECORD, tff.CLIENTS)
    )
    def run_round(weights, records):
        trained = tff.federated_map(train, (tff.federated_broadcast(weights), records))
        new = tff.federated_map(update, (weights, tff.federated_sum(trained[0])))
        return new, trained[1]

    return run_round


def records(count):
    rngs = (np.random.default_rng(client) for client in range(count))
    arrays = (rng.normal(size=(3 + i, SIZE)).astype(np.float32) for i, rng in enumerate(rngs))
    return [tf.data.Dataset.from_tensors(collections.OrderedDict(x=x)) for x in arrays]


def initial():
    return np.random.default_rng(7).normal(size=(SIZE, SIZE)).astype(np.float32)


def run(context, computation, *args):
    with tff.framework.get_context_stack().install(context):
        return computation(*args)


def test_parallelism_changes_no_bit():
    run_round, results = create_round(), []
    for threads in (1, 2, 4):
        context = in_process.InProcessContext(client_parallelism=threads)
        weights = initial()
        for _ in range(3):
            weights, steps = run(context, run_round, weights, records(17))
        assert steps == [4.0] * 17  # every client starts from its own variables
        results.append(weights)
    np.testing.assert_array_equal(results[0], results[1])
    np.testing.assert_array_equal(results[0], results[2])


def test_clients_keep_their_order():
    @tff.tensorflow.computation(np.int32)
    def loop(steps):
        return tf.while_loop(lambda i: i < 10000 * (steps % 3), lambda i: i + 1, [0])[0] + steps

    computation = tff.federated_computation(
        lambda x: tff.federated_map(loop, x), tff.FederatedType(np.int32, tff.CLIENTS)
    )
    result = run(in_process.InProcessContext(4), computation, list(range(12)))
    assert result == [10000 * (i % 3) + i for i in range(12)]


def test_an_error_names_the_client():
    @tff.tensorflow.computation(np.int32)
    def check(x):
        with tf.control_dependencies([tf.debugging.assert_less(x, 5, "too many")]):
            return tf.identity(x)

    computation = tff.federated_computation(
        lambda x: tff.federated_map(check, x), tff.FederatedType(np.int32, tff.CLIENTS)
    )
    for context in (in_process.InProcessContext(1), in_process.InProcessContext(3)):
        with pytest.raises(tf.errors.InvalidArgumentError, match=r"(?s)client 2 of 6.*too many"):
            run(context, computation, [1, 2, 9, 3, 8, 4])
        assert run(context, computation, [1, 2]) == [1, 2]


def test_an_unknown_intrinsic_is_named(monkeypatch):
    computation = tff.federated_computation(
        lambda x: tff.sequence_sum(x), tff.SequenceType(np.int32)
    )
    monkeypatch.delitem(planner._INTRINSICS, "sequence_sum")
    with pytest.raises(NotImplementedError, match="intrinsic sequence_sum"):
        run(in_process.InProcessContext(), computation, [1, 2])


@pytest.mark.parametrize(
    "value", [np.zeros(3, np.float32), np.zeros(2, np.float64), [1.0, "a"], {"a": 1.0}]
)
def test_wrong_arguments(value):
    computation = tff.tensorflow.computation(lambda x: x, tff.TensorType(np.float32, [2]))
    with pytest.raises(TypeError):
        run(in_process.InProcessContext(), computation, value)


def test_wrong_data_set():
    computation = tff.tensorflow.computation(
        lambda ds: ds.reduce(0, lambda a, b: a + b), tff.SequenceType(np.int32)
    )
    with pytest.raises(TypeError, match="expected elements of int32"):
        run(in_process.InProcessContext(), computation, tf.data.Dataset.range(3))


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


def test_references_instead_of_copies():
    """A tensor that a computation only passes on comes back in the same memory."""
    computation = tff.federated_computation(
        lambda x: tff.federated_map(
            tff.tensorflow.computation(lambda y: y[0], [WEIGHTS, WEIGHTS]), x
        ),
        tff.FederatedType([WEIGHTS, WEIGHTS], tff.SERVER),
    )
    tensor = tf.constant(initial())
    result = run(in_process.InProcessContext(), computation, (tensor, tensor))
    assert np.shares_memory(result, np.asarray(tensor))
    assert not result.flags.writeable


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

    compiled = in_process.compile_to_native(computation)
    proto = tff.framework.ConcreteComputation.get_proto(compiled)
    ops = {node.op for node in graphs.prepare(proto.tensorflow).graph_def.node}
    assert ("RandomStandardNormal" in ops) is not overwrite
    result = run(in_process.InProcessContext(), computation, 1.0)
    assert bool(result == 4.0) == overwrite


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


def test_in_order_is_bounded():
    running, most, finished = [0], [0], []
    lock = threading.Lock()

    def work(position):
        with lock:
            running[0] += 1
            most[0] = max(most[0], running[0] - len(finished))
        time.sleep(0.02 if position == 0 else 0.0)
        return position * 10

    def finish(position, result):
        assert result == position * 10
        finished.append(position)

    threads = parallel.ClientThreads(3)
    threads.run_in_order(work, finish, 50)
    threads.close()
    assert finished == list(range(50))
    assert most[0] <= 9


def test_devices():
    gpus = ["/device:GPU:0", "/device:GPU:1"]
    assert devices.choose(None, []) == devices.CPU
    assert devices.choose(None, gpus) == gpus[0]
    assert devices.choose(gpus[1], gpus) == gpus[1]
    assert devices.choose(devices.CPU, gpus) == devices.CPU
    with pytest.raises(ValueError, match="device must be"):
        devices.choose(gpus[0], [])


def test_data_sets_and_strings_stay_on_the_cpu():
    with tf.Graph().as_default() as graph:
        variant = tf.compat.v1.placeholder(tf.variant, (), "variant")
        same = tf.identity(variant, "same")
        data = tf.data.experimental.from_variant(same, tf.TensorSpec([], tf.float32))
        number = data.map(lambda x: x + 1.0).get_single_element()
        tf.multiply(number, 2.0, "product")
        tf.strings.as_string(number, name="text")
        with tf.device("/device:GPU:1"):
            tf.add(number, 1.0, "chosen")
    nodes = graph.as_graph_def().node
    placed = dict(zip((node.name for node in nodes), devices.place(nodes)))
    on_cpu = {"variant", "same", "text", *(node.name for node in nodes if "Dataset" in node.op)}
    assert {name for name, device in placed.items() if device == devices.CPU} == on_cpu
    assert placed["product"] == ""
    assert placed["chosen"] == "/device:GPU:1"


@pytest.mark.gpu
@pytest.mark.skipif(not tf.config.list_physical_devices("GPU"), reason="TensorFlow sees no GPU")
def test_gpu_equals_cpu():
    run_round = create_round()
    gpu, cpu = (
        in_process.InProcessContext(device=device) for device in ("/device:GPU:0", devices.CPU)
    )
    assert gpu.client_parallelism == 1
    on_gpu, _ = run(gpu, run_round, initial(), records(5))
    on_cpu, _ = run(cpu, run_round, initial(), records(5))
    np.testing.assert_allclose(on_gpu, on_cpu, rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize("arguments", [{"client_parallelism": 0}, {"device": "/device:GPU:99"}])
def test_bad_arguments(arguments):
    with pytest.raises(ValueError, match="Received"):
        in_process.InProcessContext(**arguments)


def test_a_computation_that_is_called_several_times_is_traced_once(monkeypatch):
    @tff.tensorflow.computation(np.float32, np.float32)
    def add(x, y):
        return x + y

    @tff.federated_computation(
        tff.FederatedType(np.float32, tff.SERVER), tff.FederatedType(np.float32, tff.CLIENTS)
    )
    def three_levels(start, values):
        total = start
        for _ in range(3):
            values = tff.federated_map(add, (values, tff.federated_broadcast(total)))
            total = tff.federated_sum(values)
        return total, values

    traced, original = [], execution.TracedFunction

    def trace(function, device):
        traced.append(function)
        return original(function, device)

    monkeypatch.setattr(execution, "TracedFunction", trace)
    total, values = run(in_process.InProcessContext(2), three_levels, 1.0, [1.0, 2.0])
    # 1, 2 -> 2, 3 (5) -> 7, 8 (15) -> 22, 23 (45)
    assert (total, values) == (45.0, [22.0, 23.0])
    of_clients = [f for f in traced if any(s.region.name == "clients" for s in f.steps)]
    assert len(of_clients) == 1


def test_an_interrupt_begins_no_more_clients():
    begun = []

    def work(client):
        begun.append(client)
        if client == 0:
            _thread.interrupt_main()
        time.sleep(0.05)

    threads = parallel.ClientThreads(2)
    with pytest.raises(KeyboardInterrupt):
        threads.run_in_order(work, lambda client, result: None, 1000)
    threads.close()
    assert len(begun) < 20
