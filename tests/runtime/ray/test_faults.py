"""Commands that run on Ray, in processes of their own: what listens, and what is lost."""

import os
import pathlib
import re
import shutil
import signal
import subprocess
import sys
import time

import portpicker
import psutil
import pytest

pytest.importorskip("ray", reason="Ray is not installed: make ray")

from tff_partial.runtime import RayOptions, WorkersLostError
from tff_partial.runtime.ray import cluster as clusters

ROOT = pathlib.Path(__file__).parents[3]
TRAIN = ("--task=mnist", "--algo=fedavg", "--data=embedded", "--clients_per_round=4")
BRIEF = ("--local_steps=1", "--eval_every=100000", "--checkpoint_every=1")


class Run:
    """run_experiment.py in a process of its own, with its output in files."""

    def __init__(self, folder, *flags, environment=None):
        self.folder, self._log = folder, folder.parent / f"{folder.name}.log"
        command = [sys.executable, ROOT / "run_experiment.py", *TRAIN, *BRIEF, "--runtime=ray"]
        variables = {**os.environ, "PYTHONPATH": str(ROOT), **(environment or {})}
        with open(self._log, "w") as log:
            self.process = psutil.Popen(
                [*command, f"--output_dir={folder}", *flags],
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                env=variables,
            )

    @property
    def lines(self):
        """What it printed, without the progress bar."""
        text = self._log.read_text()
        return [line for line in re.split("[\r\n]", text) if line and "%|" not in line]

    @property
    def rounds(self):
        path = self.folder / "metrics.csv"
        return max(0, len(path.read_text().splitlines()) - 1) if path.exists() else 0

    def train(self, rounds):
        """Wait until it has done so many rounds."""
        until(lambda: self.rounds >= rounds or self.process.poll() is not None, 120)
        assert self.rounds >= rounds, self.lines

    def end(self, timeout=90):
        return self.process.wait(timeout)

    def kill(self):
        os.kill(self.process.pid, signal.SIGKILL)
        self.process.wait(10)


def until(is_so, seconds=60):
    end = time.monotonic() + seconds
    while not is_so():
        assert time.monotonic() < end
        time.sleep(0.1)


@pytest.fixture
def start():
    """Start runs; what is left of them ends with the test."""
    started = []

    def start_run(*arguments, **options):
        started.append(Run(*arguments, **options))
        return started[-1]

    yield start_run
    for run in started:
        if run.process.poll() is None:
            run.kill()


def is_alive(process):
    try:
        return process.is_running() and process.status() != psutil.STATUS_ZOMBIE
    except psutil.NoSuchProcess:
        return False


def listening(processes):
    """The addresses on which processes accept connections."""
    found = set()
    for process in processes:
        connections = process.net_connections(kind="inet")
        found |= {c.laddr.ip for c in connections if c.status == psutil.CONN_LISTEN}
    return {address.removeprefix("::ffff:") for address in found}


@pytest.mark.slow
def test_a_ray_of_its_own_listens_on_loopback_and_ends_with_the_run(tmp_path, start):
    run = start(tmp_path / "run", "--rounds=100000", "--ray_actors=1")
    run.train(rounds=1)
    ours = [run.process, *run.process.children(recursive=True)]
    names = {process.pid: " ".join(process.cmdline()) for process in ours}
    assert listening(ours) == {"127.0.0.1"}
    assert "Ray: 1 actor on 1 node, started here, on loopback" in run.lines
    assert len(run.lines) == 2, run.lines  # nothing of Ray's own
    run.kill()
    # Two agents of Ray's, which do nothing, wait some two minutes for the head.
    rest = [process for process in ours if "Agent" not in names[process.pid]]
    for name in ("ClientActor", "raylet", "gcs_server"):
        assert any(name in names[process.pid] for process in rest), names
    until(lambda: not any(is_alive(process) for process in rest))


@pytest.mark.slow
def test_a_cluster_keeps_running_frees_actors_and_its_loss_is_one_line(tmp_path, start, cluster):
    address = f"--ray_address={cluster.address}"
    refused = start(tmp_path / "x", address, "--rounds=1", environment={"RAY_AUTH_TOKEN": "wrong"})
    folder = tmp_path / "run"
    run = start(folder, address, "--rounds=100000")
    run.train(rounds=2)
    assert f"Ray: 2 actors on 2 nodes, cluster at {cluster.address}" in run.lines
    actors = actor_processes(cluster)
    assert len(actors) == 2
    run.kill()
    until(lambda: not any(is_alive(process) for process in actors))

    assert refused.end() == 1
    assert "it asks for a token, and this one is missing or wrong" in refused.lines[-1]
    assert len(refused.lines) == 2, refused.lines

    run = start(folder, address, "--rounds=100000")
    done = run.rounds
    until(lambda: run.rounds > done, 120)
    head = cluster.head_node.all_processes["gcs_server"][0].process
    os.kill(head.pid, signal.SIGKILL)
    assert run.end() == 1
    (error,) = (line for line in run.lines if line.startswith("error"))
    assert re.match("error: the head of the Ray cluster.*does not answer; start again", error)
    assert not any("GCS" in line for line in run.lines)  # nothing of Ray's own
    columns, *rows = (folder / "metrics.csv").read_text().splitlines()
    assert {"actors", "nodes"} <= {*columns.split(",")}
    resumed = start(folder, "--rounds=100000", "--runtime=in_process")
    until(lambda: resumed.rounds > len(rows) or resumed.process.poll() is not None, 120)
    assert resumed.rounds > len(rows), resumed.lines


def actor_processes(cluster):
    raylets = [
        psutil.Process(node.all_processes["raylet"][0].process.pid)
        for node in cluster.list_all_nodes()
    ]
    children = [child for raylet in raylets for child in raylet.children(recursive=True)]
    return [child for child in children if "ClientActor" in " ".join(child.cmdline())]


def certificates(folder):
    """Make an authority and a certificate for loopback; return Ray's variables for them."""

    def openssl(*arguments):
        subprocess.run(["openssl", *arguments], cwd=folder, check=True, capture_output=True)

    new = ("-newkey", "rsa:2048", "-nodes")
    files = ("-keyout", "ca.key", "-out", "ca.crt")
    openssl("req", "-x509", *new, "-days", "1", "-subj", "/CN=ca", *files)
    openssl("req", *new, "-subj", "/CN=node", "-keyout", "node.key", "-out", "node.csr")
    (folder / "names").write_text("subjectAltName=IP:127.0.0.1,DNS:localhost")
    authority = ("-CA", "ca.crt", "-CAkey", "ca.key", "-CAcreateserial", "-days", "1")
    openssl("x509", "-req", "-in", "node.csr", *authority, "-extfile", "names", "-out", "node.crt")
    return {
        "RAY_USE_TLS": "1",
        "RAY_TLS_SERVER_CERT": str(folder / "node.crt"),
        "RAY_TLS_SERVER_KEY": str(folder / "node.key"),
        "RAY_TLS_CA_CERT": str(folder / "ca.crt"),
    }


@pytest.mark.slow
@pytest.mark.skipif(shutil.which("openssl") is None, reason="needs openssl")
def test_a_run_on_a_cluster_with_tls_and_one_without_a_certificate(tmp_path, start):
    variables, port = certificates(tmp_path), portpicker.pick_unused_port()
    command = [sys.executable, "-m", "ray.scripts.scripts", "start", "--head", "--block"]
    flags = (f"--port={port}", "--num-cpus=1", "--include-dashboard=false")
    with open(tmp_path / "head.log", "w") as log:
        head = psutil.Popen(
            [*command, *flags, "--node-ip-address=127.0.0.1"],
            env={**os.environ, **variables},
            stdin=subprocess.DEVNULL,
            stdout=log,
            stderr=log,
        )
    processes = []
    try:
        until(lambda: "Ray runtime started" in (tmp_path / "head.log").read_text())
        processes = head.children(recursive=True)
        address = f"127.0.0.1:{port}"
        with pytest.raises(WorkersLostError, match="it does not speak as Ray does without TLS"):
            clusters.Cluster(RayOptions(address))
        flags = (f"--ray_address={address}", "--rounds=1")
        run = start(tmp_path / "run", *flags, environment=variables)
        assert run.end() == 0, run.lines
    finally:
        for process in (head, *processes):
            if is_alive(process):
                process.kill()
        head.wait()
