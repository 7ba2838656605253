"""What a run writes while it trains: lost files, power cuts, damage."""

import csv
import os
import shutil

import pytest

from tests import tiny
from tests.experiments.rounds import Data, Watching, equal, evaluate, run, without_seconds
from tff_partial.core.local_training import LocalTraining
from tff_partial.experiments import client_store
from tff_partial.experiments import loop as training
from tff_partial.results import metrics, text_files


@pytest.fixture(scope="module")
def whole(process, tmp_path_factory):
    """A run of four rounds, and the weights and rows of one of six that was never stopped."""
    folder = tmp_path_factory.mktemp("runs")
    expected = run(process, folder / "six")
    run(process, folder / "four", 4)
    return folder / "four", expected, without_seconds(folder / "six")


def test_a_run_with_a_damaged_checkpoint_resumes_bit_for_bit(process, whole, tmp_path, capsys):
    folder, expected, rows = whole
    shutil.copytree(folder, tmp_path / "run")
    path = tmp_path / "run" / "checkpoints" / "round_4.npz"
    path.write_bytes(path.read_bytes()[:1000])
    watching = Watching()
    found = run(process, tmp_path / "run", callbacks=[watching])
    assert watching.done == [2, 3, 4, 5, 6]
    assert watching.has_ended
    assert str(path) in capsys.readouterr().err
    assert equal(found, expected)
    assert without_seconds(tmp_path / "run") == rows


def test_a_run_from_before_the_number_of_tested_examples_was_written_resumes(
    process, whole, tmp_path
):
    folder, expected, rows = whole
    shutil.copytree(folder, tmp_path / "run")
    with open(tmp_path / "run" / "metrics.csv", newline="") as file:
        old = [{k: v for k, v in r.items() if k != "test_examples"} for r in csv.DictReader(file)]
    text_files.write_csv(str(tmp_path / "run" / "metrics.csv"), list(old[0]), old)
    assert equal(run(process, tmp_path / "run"), expected)
    found = without_seconds(tmp_path / "run")
    assert [row.pop("test_examples") for row in found] == [None] * 4 + [9, 9]
    assert found == [{k: v for k, v in row.items() if k != "test_examples"} for row in rows]


def half_of_the_rows(folder):
    path = folder / "metrics.csv"
    path.write_text("".join(path.read_text().splitlines(keepends=True)[:3]))


LOST = {
    "client states": lambda folder: shutil.rmtree(folder / "client_states"),
    "a client state": lambda folder: next((folder / "client_states").rglob("*.4.npz")).unlink(),
    "metrics": lambda folder: (folder / "metrics.csv").unlink(),
    "half of the metrics": half_of_the_rows,
    "metrics without content": lambda folder: (folder / "metrics.csv").write_text(""),
    "metrics without rounds": lambda folder: (folder / "metrics.csv").write_text("a,b\n1,2\n"),
    "metrics of bytes": lambda folder: (folder / "metrics.csv").write_bytes(b"\xff\x00round"),
}


@pytest.mark.parametrize("lose", LOST.values(), ids=LOST.keys())
def test_lost_files_are_an_error_and_no_fresh_start(process, whole, tmp_path, lose):
    folder = tmp_path / "run"
    shutil.copytree(whole[0], folder)
    lose(folder)
    before = sorted(str(p) for p in folder.rglob("*") if "tensorboard" not in str(p))
    with pytest.raises(client_store.CheckpointError) as caught:
        run(process, folder)
    assert "\n" not in str(caught.value)
    assert sorted(str(p) for p in folder.rglob("*") if "tensorboard" not in str(p)) == before


def test_everything_is_synced_before_a_checkpoint_counts(process, tmp_path, monkeypatch):
    done = []

    def fsync(descriptor):
        done.append(os.readlink(f"/proc/self/fd/{descriptor}"))

    original = os.replace

    def replace(source, target):
        done.append(f"rename {target}")
        original(source, target)

    monkeypatch.setattr(os, "fsync", fsync)
    monkeypatch.setattr(os, "replace", replace)
    run(process, tmp_path, rounds=2)
    folder = str(tmp_path)
    path = f"{folder}/checkpoints/round_2.npz"
    first = done.index(f"rename {path}")
    states = [str(p) for p in (tmp_path / "client_states" / "0").iterdir()]
    assert len(states) == 3
    wanted = [*states, f"{folder}/client_states/0", f"{folder}/client_states"]
    wanted += [folder, f"{path}_temp"]
    metrics = max(i for i, d in enumerate(done) if d == f"rename {folder}/metrics.csv")
    assert done[metrics - 1] == f"{folder}/metrics.csv_temp"
    assert folder in done[metrics:first]
    for name in wanted:
        last_write = max((i for i, d in enumerate(done) if d == f"rename {name}"), default=-1)
        assert last_write < done.index(name) < first, name
    assert f"{folder}/checkpoints" in done[first:]


def test_a_tier_without_clients_has_an_empty_cell(tmp_path):
    local = LocalTraining(steps=2, batch_size=4)
    process = tiny.build("fedpmt", local, tiers=("strong", "1"))
    options = training.LoopOptions(2, 2)
    training.train(
        process,
        Data(4),
        evaluate,
        options,
        str(tmp_path),
        tier_of=lambda client, round_num: round_num,
    )
    rows = metrics.read(str(tmp_path))
    assert [row["train_accuracy_1"] is None for row in rows] == [True, False]
    assert [row["train_accuracy_strong"] is None for row in rows] == [False, True]
