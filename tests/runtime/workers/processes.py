"""Workers on loopback, and what a test asks of their processes."""

import os
import signal
import time

import numpy as np
import portpicker
import psutil
import tensorflow_federated as tff

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

    def is_computing(self, index, until):
        """Whether the worker begins to use the processor before the event `until` is set."""
        process = psutil.Process(self.processes[index].pid)
        begin = process.cpu_times().user
        while not until.wait(0.005):
            if process.cpu_times().user > begin + 0.05:
                return True
        return False

    def stop(self):
        for process in self.processes:
            process.stop()


@tff.federated_computation(CLIENTS_INT)
def total(values):
    return tff.federated_sum(values)


def is_gone(pid, seconds=10.0):
    deadline = time.monotonic() + seconds
    while time.monotonic() < deadline:
        try:
            if psutil.Process(pid).status() == psutil.STATUS_ZOMBIE:
                return True
        except psutil.NoSuchProcess:
            return True
        time.sleep(0.05)
    return False


def worker_pid(tmp_path, seconds=30.0):
    deadline = time.monotonic() + seconds
    while not (tmp_path / "pid").exists() or not (tmp_path / "pid").read_text():
        assert time.monotonic() < deadline, (tmp_path / "output").read_text()
        time.sleep(0.05)
    return int((tmp_path / "pid").read_text())
