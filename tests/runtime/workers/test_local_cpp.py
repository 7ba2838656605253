"""The runtime of a C++ worker beside this process."""

import os
import re
import signal
import socket
import threading
import time
from types import SimpleNamespace

import numpy as np
import psutil
import pytest
import tensorflow as tf
import tensorflow_federated as tff

from tests import stock
from tests.runtime.workers.processes import is_gone, worker_pid
from tff_partial import runtime
from tff_partial.cli import run as run_experiment
from tff_partial.experiments import participation
from tff_partial.results import metrics
from tff_partial.runtime.workers import client, local_cpp

# The whole runtime, left without close() while its last result is still alive.
CHILD_WITH_TFF = """
import sys
import numpy as np
import tensorflow_federated as tff
from tff_partial.runtime.workers import local_cpp

@tff.federated_computation(tff.FederatedType(np.int32, tff.CLIENTS))
def total(values):
    return tff.federated_sum(values)

context = local_cpp.create_context()
tff.framework.set_default_context(context)
with open(sys.argv[1], 'w') as f:
    f.write(str(context.worker_pid))
print(total([1, 2, 3]), flush=True)
"""


def test_trains_and_the_worker_is_gone_after_close():
    context = local_cpp.create_context()
    cohort = stock.client_data(3)
    one, four = (stock.train(context, [cohort] * rounds) for rounds in (1, 4))
    assert np.all(np.isfinite(four))
    assert np.abs(four).sum() > np.abs(one).sum() > 0
    assert psutil.pid_exists(context.worker_pid)
    context.close()
    assert is_gone(context.worker_pid)
    context.close()


def test_a_worker_that_dies_in_a_run_is_an_error():
    context = local_cpp.create_context()
    stock.train(context, [stock.client_data(2)])
    os.kill(context.worker_pid, signal.SIGKILL)
    expected = rf"process {context.worker_pid}, is lost .*exit code -9.*end of its log"
    with pytest.raises(runtime.WorkersLostError, match=expected) as error:
        stock.train(context, [stock.client_data(2)])
    assert "\n" not in str(error.value)
    context.close()


def test_a_worker_that_hangs_in_a_round_is_an_error_and_is_ended(monkeypatch):
    context = local_cpp.create_context()
    stock.train(context, [stock.client_data(2)])
    monkeypatch.setattr(client, "_WATCH_INTERVAL", 0.3)
    monkeypatch.setattr(context._client, "_timeout", 0.3)
    threading.Timer(0.5, os.kill, (context.worker_pid, signal.SIGSTOP)).start()
    begin = time.monotonic()
    expected = rf"process {context.worker_pid}, is lost \(still running; it no longer answers\)"
    with pytest.raises(runtime.WorkersLostError, match=expected):
        stock.train(context, [stock.client_data(2, repeat=20000)])
    context.close()
    # About 4 s: a look at the worker, three contacts of 0.3 s, two seconds to see how it ended.
    assert time.monotonic() - begin < 30
    assert is_gone(context.worker_pid)


def test_a_run_whose_worker_is_killed_ends_in_one_line_and_can_be_resumed(
    tmp_path, monkeypatch, capfd, default_runtime
):
    flags = "--task=mnist --data=embedded --rounds=4 --clients=4 --clients_per_round=2"
    arguments = [*flags.split(), "--local_steps=1", "--runtime=local_cpp"]
    kill_before_round_3(monkeypatch)
    folder = tmp_path / "killed"
    try:
        assert run_experiment.main([*arguments, f"--output_dir={folder}"]) == 1
        error = [line for line in capfd.readouterr().err.splitlines() if "error" in line]
        assert len(error) == 1, error
        assert error[0].startswith("error: the TFF worker, process ")
        assert error[0].endswith(f"start again with --output_dir={folder} to resume")
        assert [row["round"] for row in metrics.read(str(folder))] == [1, 2]
        monkeypatch.undo()
        for name in ("killed", "whole"):
            assert run_experiment.main([*arguments, f"--output_dir={tmp_path / name}"]) == 0
    finally:
        tff.framework.set_default_context(default_runtime)
    resumed, whole = (np.load(tmp_path / name / "weights.npz") for name in ("killed", "whole"))
    for name in whole.files:
        np.testing.assert_allclose(resumed[name], whole[name], atol=1e-6)


def kill_before_round_3(monkeypatch):
    """The worker dies when the clients of the third round are drawn."""

    def sample(population, cohort, round_num, seed):
        if round_num == 2:
            workers = [p for p in psutil.Process().children() if "worker_binary" in p.name()]
            workers[0].kill()
        return stock_sample(population, cohort, round_num, seed)

    stock_sample = participation.sample_clients
    monkeypatch.setattr(participation, "sample_clients", sample)


@pytest.mark.parametrize(
    ("addresses", "warns"), [(["127.0.0.1", "::1"], False), (["::1", "192.0.2.7"], True)]
)
def test_warns_where_others_can_reach_the_worker(monkeypatch, caplog, addresses, warns):
    families = {False: socket.AF_INET, True: socket.AF_INET6}
    found = [SimpleNamespace(family=families[":" in a], address=a) for a in addresses]
    down = [SimpleNamespace(family=socket.AF_INET, address="198.51.100.1")]
    interfaces = {"up": SimpleNamespace(isup=True), "down": SimpleNamespace(isup=False)}
    monkeypatch.setattr(psutil, "net_if_addrs", lambda: {"up": found, "down": down})
    monkeypatch.setattr(psutil, "net_if_stats", lambda: interfaces)
    local_cpp.create_context().close()
    warnings = [r.getMessage() for r in caplog.records if "anyone who reaches" in r.getMessage()]
    assert len(warnings) == warns
    if warns:
        assert re.match(r"anyone who reaches port \d+ of 192.0.2.7 can run code", warnings[0])
        assert "in_process" in warnings[0]


def test_a_failed_precondition_in_a_graph_is_reported_and_not_repeated_for_ever():
    @tff.tensorflow.computation(np.float32)
    def fail(x):
        resource = tf.raw_ops.VarHandleOp(dtype=tf.float32, shape=[], shared_name="never_set")
        return x + tf.raw_ops.ReadVariableOp(resource=resource, dtype=tf.float32)

    context = local_cpp.create_context()
    with pytest.raises(Exception, match="never_set"):
        context.invoke(fail, 1.0)
    context.close()


def test_a_worker_started_in_a_thread_outlives_the_thread():
    contexts = []
    thread = threading.Thread(target=lambda: contexts.append(local_cpp.create_context()))
    thread.start()
    thread.join()
    time.sleep(0.5)
    assert np.all(np.isfinite(stock.train(contexts[0], [stock.client_data(2)])))
    contexts[0].close()


def test_log_file(tmp_path):
    log = tmp_path / "worker.log"
    log.write_text("before\n")
    local_cpp.create_context(log_path=str(log)).close()
    assert log.read_text().startswith("before\n")


def test_normal_exit_ends_the_worker_without_a_word(start_child, tmp_path):
    child = start_child(CHILD_WITH_TFF)
    pid = worker_pid(tmp_path)
    assert child.wait(60) == 0
    assert is_gone(pid)
    lines = (tmp_path / "output").read_text().splitlines()
    assert lines[-1] == "6", lines
