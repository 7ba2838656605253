"""The command that starts a worker."""

import pathlib
import re
import shutil
import signal
import subprocess
import sys
import time

import portpicker
import pytest

from tests.runtime.workers.processes import total
from tff_partial.runtime.workers import contact


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
