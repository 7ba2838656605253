"""A worker's process ends with whoever started it."""

import signal
import subprocess
import sys
import time

import portpicker
import psutil
import pytest

from tests.runtime.workers.processes import is_gone, worker_pid
from tff_partial import runtime
from tff_partial.runtime.workers import process

# Starts a worker, writes its process id, and then does what the test says.
CHILD = """
import os, signal, sys, time
import portpicker
from tff_partial.runtime.workers import process
port = portpicker.pick_unused_port()
worker = process.WorkerProcess(process.worker_command(port), port)
with open(sys.argv[1], 'w') as f:
    f.write(str(worker.pid))
print('done', flush=True)
"""


def test_exception_ends_the_worker(start_child, tmp_path):
    child = start_child(CHILD + "raise ValueError")
    pid = worker_pid(tmp_path)
    assert child.wait(30) == 1
    assert is_gone(pid)


@pytest.mark.parametrize("signum", [signal.SIGTERM, signal.SIGKILL, signal.SIGINT])
def test_signals_end_the_worker(start_child, tmp_path, signum):
    child = start_child(CHILD + "time.sleep(600)")
    pid = worker_pid(tmp_path)
    assert psutil.pid_exists(pid)
    child.send_signal(signum)
    child.wait(30)
    assert is_gone(pid)


def test_a_pipe_ends_with_the_process_that_writes_to_it(tmp_path):
    code = CHILD + "os.kill(os.getpid(), signal.SIGKILL)"
    begin = time.monotonic()
    with open(tmp_path / "output", "wb") as output:
        subprocess.run(
            ["sh", "-c", '"$0" -c "$1" "$2" | tail -n 1', sys.executable, code, tmp_path / "pid"],
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=subprocess.DEVNULL,
            timeout=30,
            check=True,
        )
    assert time.monotonic() - begin < 15
    assert (tmp_path / "output").read_text() == "done\n"
    assert is_gone(worker_pid(tmp_path))


def test_a_worker_that_dies_at_once_is_an_error_with_its_log():
    command = ["/bin/sh", "-c", "echo no such luck >&2; exit 7"]
    with pytest.raises(runtime.WorkersLostError, match="exit code 7; end of its log: no such luck"):
        process.WorkerProcess(command, portpicker.pick_unused_port())
    with pytest.raises(RuntimeError, match=r"exit code 1\b"):
        process.WorkerProcess(["/bin/false"], portpicker.pick_unused_port())
    with pytest.raises(RuntimeError, match="No such file"):
        process.WorkerProcess(["/no/such/file"], portpicker.pick_unused_port())


def test_a_worker_that_never_answers_is_an_error_and_is_ended(tmp_path):
    command = ["/bin/sh", "-c", f"echo $$ > {tmp_path / 'pid'}; echo idle; exec sleep 600"]
    with pytest.raises(RuntimeError, match="did not answer on port .* within 0.7 s.* idle"):
        process.WorkerProcess(command, portpicker.pick_unused_port(), start_timeout=0.7)
    assert is_gone(worker_pid(tmp_path))
