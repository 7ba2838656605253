"""Remote workers, here on loopback: same results, and rounds that survive their loss."""

import os
import pathlib
import re
import shutil
import signal
import subprocess
import sys
import threading
import time

import numpy as np
import portpicker
import pytest
import tensorflow as tf
import tensorflow_federated as tff
from tensorflow_federated.proto.v0 import executor_pb2

from tests import stock
from tff_partial.runtime.workers import client, contact, local_cpp, remote
from tff_partial.runtime.workers import process as worker_process

CLIENTS_INT = tff.FederatedType(np.int32, tff.CLIENTS)


class Workers:
    """Workers on loopback that a test may kill and start again."""

    def __init__(self, count):
        self.ports = [portpicker.pick_unused_port() for _ in range(count)]
        self.processes = [None] * count
        for index in range(count):
            self.start(index)

    @property
    def addresses(self):
        return [f"localhost:{port}" for port in self.ports]

    def start(self, index):
        port = self.ports[index]
        command = worker_process.worker_command(port)
        self.processes[index] = worker_process.WorkerProcess(command, port)

    def signal(self, index, signum=signal.SIGKILL):
        os.kill(self.processes[index].pid, signum)
        if signum == signal.SIGKILL:
            self.processes[index].wait()

    def stop(self):
        for process in self.processes:
            process.stop()


@pytest.fixture
def workers():
    pair = Workers(2)
    yield pair
    pair.stop()


@pytest.fixture
def connect():
    contexts = []

    def create(addresses, **options):
        contexts.append(remote.create_context(addresses, **options))
        return contexts[-1]

    yield create
    for context in contexts:
        context.close()


@tff.federated_computation(CLIENTS_INT)
def total(values):
    return tff.federated_sum(values)


def test_one_and_two_workers_equal_the_local_one(workers, connect):
    local = local_cpp.create_context()
    cohorts = [stock.client_data(5), stock.client_data(1), stock.client_data(5)]
    expected = stock.train(local, cohorts)
    local.close()
    for addresses in (workers.addresses[:1], workers.addresses):
        weights = stock.train(connect(addresses), cohorts)
        np.testing.assert_allclose(weights, expected, atol=1e-6)


def test_no_clients_and_fewer_than_workers(workers, connect):
    context = connect(workers.addresses)
    for values in ([], [5], [5, 6], [5, 6, 7]):
        assert context.invoke(total, values) == sum(values)


def test_computations_without_clients(workers, connect):
    @tff.tensorflow.computation(np.int32)
    def double(x):
        return 2 * x

    @tff.federated_computation
    def at_server():
        return tff.federated_value(3, tff.SERVER)

    context = connect(workers.addresses)
    assert context.invoke(double, 4) == 8
    assert context.invoke(at_server, None) == 3


def test_client_values_come_back_complete(workers, connect):
    @tff.tensorflow.computation(np.int32)
    def double(x):
        return 2 * x

    @tff.federated_computation(CLIENTS_INT)
    def double_each(values):
        return tff.federated_map(double, values), tff.federated_sum(values)

    each, whole = connect(workers.addresses).invoke(double_each, [1, 2, 3, 4, 5])
    assert sorted(each) == [2, 4, 6, 8, 10]
    assert whole == 15


def test_two_aggregations_need_one_worker(workers, connect):
    @tff.federated_computation(CLIENTS_INT)
    def sum_times_clients(values):
        first = tff.federated_broadcast(tff.federated_sum(values))
        return tff.federated_sum(first)

    assert connect(workers.addresses[:1]).invoke(sum_times_clients, [1, 2, 3]) == 18
    with pytest.raises(ValueError, match="run it with one worker, or use .* one-step form"):
        connect(workers.addresses).invoke(sum_times_clients, [1, 2, 3])


def test_a_worker_killed_in_the_middle_of_a_round_changes_nothing(workers, connect):
    context = connect(workers.addresses)
    long = stock.client_data(4, repeat=900)
    cohorts = [stock.client_data(4), long, stock.client_data(4)]
    expected = stock.train(context, cohorts)
    killed_at, ended_at = [], []

    def kill():
        workers.signal(1)
        killed_at.append(time.monotonic())

    def before_round(round_num):
        if round_num == 1:
            threading.Timer(0.5, kill).start()
        elif round_num == 2:
            ended_at.append(time.monotonic())

    weights = stock.train(context, cohorts, before_round)
    assert killed_at[0] < ended_at[0]
    assert context.ready_workers() == (workers.addresses[0],)
    np.testing.assert_allclose(weights, expected, atol=1e-6)


def test_a_worker_that_comes_back_is_used_again(workers, connect):
    context = connect(workers.addresses)
    workers.signal(0)
    assert context.invoke(total, [1, 2, 3]) == 6
    assert context.ready_workers() == (workers.addresses[1],)
    workers.start(0)
    assert context.invoke(total, [1, 2, 3]) == 6
    assert context.ready_workers() == tuple(workers.addresses)
    workers.signal(1)
    assert context.invoke(total, [1, 2, 3]) == 6
    assert context.ready_workers() == (workers.addresses[0],)


def test_a_worker_restarted_between_two_rounds(workers, connect):
    context = connect(workers.addresses[:1])
    assert context.invoke(total, [1, 2, 3]) == 6
    workers.signal(0)
    workers.start(0)
    assert context.invoke(total, [1, 2, 3]) == 6


def test_a_worker_that_hangs_is_given_up(workers, connect, monkeypatch):
    monkeypatch.setattr(client, "_WATCH_INTERVAL", 0.5)
    context = connect(workers.addresses, connect_timeout=0.5)
    workers.signal(0, signal.SIGSTOP)
    assert context.invoke(total, [1, 2, 3]) == 6
    assert context.ready_workers() == (workers.addresses[1],)
    workers.signal(0, signal.SIGCONT)


def test_a_worker_that_hangs_is_asked_once_to_release_values(workers, connect, monkeypatch):
    context = connect(workers.addresses[:1], connect_timeout=1.0)
    assert context.invoke(total, [1, 2, 3]) == 6
    monkeypatch.setattr(client, "_WATCH_INTERVAL", 0.3)
    looks = []
    monkeypatch.setattr(contact, "is_alive", lambda *address: bool(looks.append(address)))
    stub = context._workers[0]._stub
    workers.signal(0, signal.SIGSTOP)
    for _ in range(20):
        stub.dispose(executor_pb2.DisposeRequest())
    assert len(looks) == 1
    with pytest.raises(remote.WorkersLostError, match="localhost:.*: it no longer answers"):
        context.invoke(total, [1, 2, 3])
    assert len(looks) == 1, "it is known to be lost"
    workers.signal(0, signal.SIGCONT)


def test_unreachable_from_the_start(workers, connect):
    workers.signal(1)
    context = connect(workers.addresses)
    assert context.ready_workers() == (workers.addresses[0],)
    assert context.invoke(total, [1, 2, 3]) == 6


def test_no_worker_left(workers, connect):
    context = connect(workers.addresses)
    assert context.invoke(total, [1, 2, 3]) == 6
    workers.signal(0)
    workers.signal(1)
    begin = time.monotonic()
    with pytest.raises(remote.WorkersLostError, match="no worker answers: localhost:"):
        context.invoke(total, [1, 2, 3])
    with pytest.raises(remote.WorkersLostError):
        remote.create_context(workers.addresses)
    assert time.monotonic() - begin < 5
    workers.start(0)
    assert context.invoke(total, [1, 2, 3]) == 6


def test_an_error_in_a_graph_is_not_taken_for_a_lost_worker(workers, connect):
    @tff.tensorflow.computation(np.int32)
    def checked(x):
        with tf.control_dependencies([tf.debugging.assert_positive(x, "not positive")]):
            return tf.identity(x)

    @tff.federated_computation(CLIENTS_INT)
    def checked_total(values):
        return tff.federated_sum(tff.federated_map(checked, values))

    context = connect(workers.addresses)
    with pytest.raises(Exception, match="not positive"):
        context.invoke(checked_total, [1, 2, -3])
    assert context.ready_workers() == tuple(workers.addresses)
    assert context.invoke(checked_total, [1, 2, 3]) == 6


@pytest.mark.parametrize(
    ("addresses", "message"),
    [
        ([], "at least one host:port"),
        ("host:1", "at least one host:port"),
        (["host"], "Received: 'host'"),
        (["host:abc"], "Received: 'host:abc'"),
        (["host:0"], "Received: 'host:0'"),
        (["host:70000"], "Received: 'host:70000'"),
        ([":80"], "Received: ':80'"),
        ([""], "Received: ''"),
        (["::1:80"], "Received: '::1:80'"),
        (["a:1", "b:1", "a:1"], "Received twice: a:1"),
    ],
)
def test_bad_addresses(addresses, message):
    with pytest.raises(ValueError, match=message) as error:
        remote.create_context(addresses)
    assert "\n" not in str(error.value)


def run_worker_command(tmp_path, *args):
    with open(tmp_path / "output", "wb") as output:
        return subprocess.Popen(
            [sys.executable, "-m", "tff_partial.runtime.worker", *args],
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=output,
        )


@pytest.mark.parametrize("signum", [signal.SIGTERM, signal.SIGINT])
def test_worker_command_stops_cleanly(tmp_path, connect, signum):
    port = portpicker.pick_unused_port()
    command = run_worker_command(tmp_path, f"--port={port}", "--max_concurrent_computation_calls=1")
    deadline = time.monotonic() + 30
    while "worker ready" not in (tmp_path / "output").read_text():
        assert time.monotonic() < deadline
        time.sleep(0.05)
    assert connect([f"localhost:{port}"]).invoke(total, [1, 2]) == 3
    command.send_signal(signum)
    assert command.wait(10) == 0
    with contact.open_channel(f"localhost:{port}") as channel:
        assert not contact.answers(channel, 1.0)


def test_worker_command_refuses_a_bad_port_in_one_line(tmp_path, workers):
    bad = ["abc", "0", "70000", "-1", "", str(workers.ports[0])]
    for port in bad:
        assert run_worker_command(tmp_path, f"--port={port}").wait(30) == 2
        lines = (tmp_path / "output").read_text().splitlines()
        assert len(lines) == 1, lines
        assert lines[0].startswith("error: "), lines


def test_the_image_holds_every_file_that_the_worker_imports(tmp_path):
    root = pathlib.Path(__file__).parents[2]
    copied = re.findall(r"tff_partial/\S+\.py", (root / "deploy/worker.Dockerfile").read_text())
    for name in copied:
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(root / name, tmp_path / name)
    # This environment finds a file that is missing in the image: where it was installed from.
    code = (
        "import sys, tff_partial.runtime.worker, tff_partial.cli.worker\n"
        "print(*(m.__file__ for name, m in sys.modules.items() if name.startswith('tff_partial')))"
    )
    files = subprocess.check_output([sys.executable, "-c", code], cwd=tmp_path, text=True).split()
    assert sorted(files) == sorted(str(tmp_path / name) for name in copied)


def test_worker_command_helps_without_tensorflow():
    code = (
        "import sys\nfrom tff_partial.cli import worker\n"
        "sys.exit(any(m in sys.modules for m in ('tensorflow', 'tensorflow_federated')))"
    )
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0
