"""Runs on a machine that fails: full disks, lost folders, folders in use, divergence."""

import json
import os
import pathlib
import shutil
import subprocess
import sys

import pytest

from tests.cli.small_runs import SMALL, weights, without_seconds
from tff_partial.cli import run as run_experiment
from tff_partial.experiments import callbacks
from tff_partial.system import folder_lock, scratch_folders

pytestmark = pytest.mark.usefixtures("keep_runtime")
ROOT = pathlib.Path(__file__).parents[2]


def main(folder, *args):
    return run_experiment.main([*SMALL, "--rounds=6", f"--output_dir={folder}", *args])


def errors(capsys):
    """The lines on stderr but for the bar, which ends with carriage returns."""
    lines = [line.split("\r")[-1] for line in capsys.readouterr().err.splitlines()]
    return [line for line in lines if line.startswith(("error", "warning", "Traceback", "Excep"))]


@pytest.fixture(scope="module")
def undisturbed(tmp_path_factory, default_runtime):
    folder = tmp_path_factory.mktemp("runs") / "undisturbed"
    assert main(folder, "--algo=scaffold") == 0
    return folder


@pytest.fixture
def small_disk(tmp_path):
    folder = tmp_path / "disk"
    folder.mkdir()
    command = ["mount", "-t", "tmpfs", "-o", "size=2M", "none", str(folder)]
    if os.getuid() or subprocess.run(command, capture_output=True).returncode:
        pytest.skip("a small tmpfs can be mounted by root only")
    yield folder
    subprocess.run(["umount", str(folder)], check=True)


def after_round(monkeypatch, wanted, action):
    """Has something happen when so many rounds are done."""
    original = callbacks.ProgressBar.on_round

    def on_round(self, done, row):
        if done == wanted:
            action()
        original(self, done, row)

    monkeypatch.setattr(callbacks.ProgressBar, "on_round", on_round)


def fill(path):
    with open(path, "wb", buffering=0) as file:
        try:
            while True:
                file.write(bytes(4096))
        except OSError:
            pass


@pytest.mark.parametrize("wanted", [3, 6], ids=["in the rounds", "at the end"])
def test_a_full_disk_is_a_line_and_the_run_resumes_bit_for_bit(
    undisturbed, small_disk, wanted, monkeypatch, capsys
):
    folder = small_disk / "run"
    with monkeypatch.context() as patch:
        after_round(patch, wanted, lambda: fill(small_disk / "filling"))
        assert main(folder, "--algo=scaffold") == 1
    found = errors(capsys)
    assert len(found) == 1, found
    assert "No space left on device" in found[0]
    assert f"--output_dir={folder}" in found[0]
    assert not [name for _, _, names in os.walk(folder) for name in names if "_temp" in name]
    (small_disk / "filling").unlink()
    assert main(folder, "--algo=scaffold") == 0
    assert without_seconds(folder) == without_seconds(undisturbed)
    assert weights(folder) == weights(undisturbed)


def test_a_removed_folder_is_a_line_and_does_not_come_back(tmp_path, monkeypatch, capsys):
    folder = tmp_path / "run"
    after_round(monkeypatch, 3, lambda: shutil.rmtree(folder))
    assert main(folder, "--algo=scaffold") == 1
    found = errors(capsys)
    assert len(found) == 1, found
    assert "No such file or directory" in found[0]
    assert not folder.exists()


def test_divergence_is_a_line_in_the_summary_and_exit_code_1(tmp_path, capsys):
    assert main(tmp_path / "run", "--learning_rate=0.1,3:1e38") == 1
    found = errors(capsys)
    assert len(found) == 1, found
    assert "error: diverged in round 4: train_loss=" in found[0]
    summary = json.loads((tmp_path / "run" / "summary.json").read_text())
    assert summary["diverged_at_round"] == summary["rounds"] == 4
    assert not (tmp_path / "run" / "weights.npz").exists()
    assert (tmp_path / "run" / "checkpoints" / "round_3.npz").exists()
    assert (tmp_path / "run" / "curves.png").exists()


def test_a_second_run_in_the_folder_is_refused_and_told_who_holds_it(tmp_path, capsys):
    folder = tmp_path / "run"
    folder.mkdir()
    code = (
        "import sys, time; from tff_partial.system import folder_lock; "
        "lock = folder_lock.FolderLock(sys.argv[1]); print('held', flush=True); time.sleep(99)"
    )
    command = [sys.executable, "-c", code, str(folder)]
    with subprocess.Popen(command, cwd=ROOT, stdout=subprocess.PIPE, text=True) as process:
        try:
            assert process.stdout.readline() == "held\n"
            assert main(folder) == 2
        finally:
            process.kill()
    (line,) = capsys.readouterr().err.splitlines()
    assert line.startswith("error: output_dir must be used by one run at a time. Received: ")
    assert f"process {process.pid} on " in line
    assert [path.name for path in folder.iterdir()] == [folder_lock.NAME]
    folder_lock.FolderLock(str(folder)).close()  # free again after kill -9


def test_records_go_to_a_folder_of_the_run_which_is_removed_at_its_end(tmp_path, monkeypatch):
    args = ["--algo=embracing", "--model=mlp_100", "--tiers=weak:6", "--train_examples=60"]
    seen = []
    after_round(monkeypatch, 1, lambda: seen.extend((tmp_path / "records").rglob("[0-9]-*-*-*")))
    record = f"--embracing_record_dir={tmp_path / 'records'}"
    assert main(tmp_path / "a", *args, record) == 0
    assert {str(path.parent) for path in seen} == {
        scratch_folders.name_of(str(tmp_path / "records"), str(tmp_path / "a"))
    }
    assert [path.name for path in (tmp_path / "records").iterdir()] == ["records.lock"]
