"""Temporary folders of runs: a dead run's is removed, a live run's is not."""

import os
import signal
import subprocess
import sys

import pytest

from tff_partial.system import temporary

# Starts a run's folder, writes a file as TensorFlow does, and then waits.
CHILD = """
import sys, tempfile, time
from tff_partial.system import temporary
folder = temporary.use_own_folder()
handle = tempfile.NamedTemporaryFile(prefix="__autograph", delete=False)
assert handle.name.startswith(folder)
print(folder, flush=True)
sys.stdin.readline()
"""


@pytest.fixture
def start_run(tmp_path):
    processes = []

    def start():
        process = subprocess.Popen(
            [sys.executable, "-c", CHILD],
            env={**os.environ, "TMPDIR": str(tmp_path)},
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )
        processes.append(process)
        return process, process.stdout.readline().strip()

    yield start
    for process in processes:
        process.kill()
        if process.stdout and not process.stdout.closed:
            process.communicate()


def test_nothing_is_left_after_the_end(start_run, tmp_path):
    process, folder = start_run()
    assert os.listdir(tmp_path) == [os.path.basename(folder)]
    process.communicate("\n", timeout=10)
    assert process.returncode == 0
    assert os.listdir(tmp_path) == []


def test_the_next_run_removes_what_a_killed_one_left_and_nothing_else(start_run, tmp_path):
    mine = [".tff_partial_run_notes.txt", ".tff_partial_run_link", "tff_partial-main"]
    (tmp_path / mine[0]).write_text("not a folder")
    os.symlink("/", tmp_path / mine[1])
    (tmp_path / mine[2]).mkdir()  # an unpacked source tree
    _, alive = start_run()
    killed, dead = start_run()
    killed.send_signal(signal.SIGKILL)
    killed.wait(10)
    assert os.listdir(dead)
    _, new = start_run()
    assert not os.path.exists(dead)
    assert len(os.listdir(alive)) == len(os.listdir(new)) == 1
    assert sorted(os.listdir(tmp_path)) == sorted([*mine, *map(os.path.basename, (alive, new))])


def test_no_folder_can_be_made(monkeypatch):
    def fail(**unused):
        raise OSError("no space left")

    monkeypatch.setattr(temporary.tempfile, "mkdtemp", fail)
    before = temporary.tempfile.tempdir
    assert temporary.use_own_folder.__wrapped__() is None
    assert temporary.tempfile.tempdir == before


def test_a_folder_system_without_locks(tmp_path, monkeypatch):
    def refuse(*unused):
        raise OSError("no locks")

    monkeypatch.setattr(temporary.fcntl, "flock", refuse)
    with pytest.raises(OSError, match="no locks"):
        temporary._create_locked(str(tmp_path))
