"""Workers behind stunnel, on hosts of their own: deploy/ as docs/runtimes.md describes it.

Needs root, iproute2, nftables, stunnel and OpenSSL.
"""

import os
import subprocess
import sys

import numpy as np
import pytest

from tests.runtime.workers import hosts
from tff_partial.cli import run as run_experiment

MISSING = hosts.missing()
pytestmark = pytest.mark.skipif(bool(MISSING), reason=f"hosts of their own need {MISSING}")
WORKERS = ("worker-1", "worker-2")
PORTS = ("8001", "8002")


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    return tmp_path_factory.mktemp("hosts")


@pytest.fixture(scope="module")
def certificates(folder):
    """Those of deploy/certificates.sh: good ones, of another authority, expired."""
    for name, days in (("good", "2"), ("other", "2"), ("expired", "-1")):
        make_certificates(folder / name, "run", *WORKERS, DAYS=days)
    # Expired, but of the right authority.
    for part in ("ca.pem", "ca.key"):
        (folder / "expired" / part).write_bytes((folder / "good" / part).read_bytes())
    for part in ("run.pem", "run.key"):
        (folder / "expired" / part).unlink()
    make_certificates(folder / "expired", "run", "unused", DAYS="-1")
    return folder


def make_certificates(folder, *names, **variables):
    script = hosts.DEPLOY / "certificates.sh"
    environment = {**os.environ, **variables}
    subprocess.run([script, folder, *names], check=True, env=environment, capture_output=True)


@pytest.fixture(scope="module")
def network(folder, certificates):
    """A run's host, and two workers whose raw port is closed, behind stunnel."""
    found = hosts.Hosts(("run", *WORKERS), folder)
    try:
        for name in WORKERS:
            found.close_port(name, 8000)
            command = (sys.executable, "-m", "tff_partial.runtime.worker", "--port=8000")
            worker, log = found.start(name, *command, log=f"{name}.log")
            start_stunnel(found, name, configuration(folder, name))
            hosts.wait_for("worker ready", log, worker)
        yield found
    finally:
        found.close()


def configuration(folder, name):
    """deploy's file for a worker, with the folder of this test."""
    text = (hosts.DEPLOY / "stunnel-worker.conf").read_text()
    text = text.replace("/etc/tff/worker.", str(folder / "good" / f"{name}."))
    return text.replace("/etc/tff/ca.", str(folder / "good" / "ca."))


def run_configuration(network, folder):
    """deploy's file for the run, with the folder and the addresses of this test."""
    text = (hosts.DEPLOY / "stunnel-run.conf").read_text()
    text = text.replace("/etc/tff/run.", str(folder / "good" / "run."))
    text = text.replace("/etc/tff/ca.", str(folder / "good" / "ca."))
    for name in WORKERS:
        text = text.replace(f"connect = {name}:", f"connect = {network.address(name)}:")
    return text


def start_stunnel(network, host, text, log="stunnel"):
    path = network._folder / f"{host}-{log}.conf"
    path.write_text(text)
    process, output = network.start(host, "stunnel", str(path), log=f"{host}-{log}.log")
    hosts.wait_for("Configuration successful", output, process)
    return process


def answers(network, port):
    """Whether a worker answers at a loopback port of the run's host."""
    code = (
        "from tff_partial.runtime.workers import contact\n"
        f"print(contact.is_alive('127.0.0.1:{port}', 3.0))"
    )
    return network.python("run", code) == "True"


@pytest.fixture
def tunnel(network, folder):
    """Starts the run's stunnel, which ends with the test."""
    started = []

    def start(text):
        started.append(start_stunnel(network, "run", text))

    yield start
    for process in started:
        network.stop(process)


def test_workers_answer_through_the_tunnel_only(network, folder, tunnel):
    tunnel(run_configuration(network, folder))
    assert [answers(network, port) for port in PORTS] == [True, True]
    code = (
        "import socket\nfor port in (8000, 8443):\n  try:\n"
        f"    socket.create_connection(('{network.address('worker-1')}', port), 2).close()\n"
        "    print(port)\n  except OSError:\n    pass"
    )
    assert network.python("run", code) == "8443"


@pytest.mark.parametrize("credentials", ["none", "other", "expired", "a worker's"])
def test_other_certificates_are_refused(credentials, network, folder, tunnel):
    text = run_configuration(network, folder)
    if credentials == "none":
        lines = text.splitlines()
        text = "\n".join(line for line in lines if not line.startswith(("cert =", "key =")))
    elif credentials == "a worker's":
        text = text.replace("good/run.", "good/worker-1.")
    else:
        text = text.replace("good/run.", f"{credentials}/run.")
    tunnel(text)
    assert not answers(network, PORTS[0])


def test_a_worker_with_another_name_is_refused(network, folder, tunnel):
    tunnel(run_configuration(network, folder).replace("checkHost = worker-1", "checkHost = other"))
    assert [answers(network, port) for port in PORTS] == [False, True]


FLAGS = ("--task=mnist", "--data=embedded", "--algo=fedavg", "--clients_per_round=4")
ROUNDS = ("--rounds=50", "--eval_every=50", "--local_steps=5")


# A run that notices the loss of a worker after 5 s, not 17.
QUICK_RUN = """
import sys
from tff_partial.cli import run
from tff_partial.core import lazy
lazy.load()
from tff_partial.runtime.workers import client, contact
client._WATCH_INTERVAL, contact._CONTACTS = 1.0, 1
sys.exit(run.main(sys.argv[1:]))
"""


def test_a_run_survives_a_pulled_cable(network, folder, tunnel, keep_runtime):
    tunnel(run_configuration(network, folder))
    expected, actual = folder / "expected", folder / "actual"
    command = (sys.executable, "-c", QUICK_RUN, *FLAGS, *ROUNDS)
    spread = ("--runtime=remote", "--workers=localhost:8001,localhost:8002")
    run, log = network.start("run", *command, *spread, f"--output_dir={actual}", log="run.log")
    metrics = actual / "metrics.csv"
    hosts.wait_until(lambda: metrics.exists() and metrics.read_text().count("\n") > 1, run, log)
    accepted = connections(folder)
    network.plug("worker-2", False)
    hosts.wait_for("worker localhost:8002 is lost", log, run)
    network.plug("worker-2", True)
    hosts.wait_until(lambda: connections(folder) > accepted, run, log)
    assert run.wait(300) == 0, log.read_text()
    assert "2 of 2 workers answer" in log.read_text()
    assert run_experiment.main([*FLAGS, *ROUNDS, f"--output_dir={expected}"]) == 0
    with np.load(expected / "weights.npz") as a, np.load(actual / "weights.npz") as b:
        assert a.files == b.files
        for name in a.files:
            np.testing.assert_allclose(a[name], b[name], atol=1e-5)


def connections(folder):
    """How many connections worker-2 has accepted."""
    return (folder / "worker-2-stunnel.log").read_text().count("accepted connection")
