"""Runs as `tff-partial ls` finds them."""

import json
import os

import pytest

from tff_partial.results import listing
from tff_partial.results.text_files import ResultsError
from tff_partial.system import folder_lock


def make(folder, rows, rounds=3, summary=None, head="round,test_accuracy", **settings):
    """A run's folder, written by hand."""
    folder.mkdir(parents=True)
    settings = {"task": "mnist", "algo": "fedavg", "rounds": rounds, **settings}
    (folder / "config.json").write_text(json.dumps({"settings": settings}))
    (folder / "metrics.csv").write_text("\r\n".join([head, *rows, ""]))
    if summary:
        (folder / "summary.json").write_text(json.dumps(summary))
    return str(folder)


def test_the_state_and_the_accuracy_of_a_run(tmp_path):
    rows = ["1,0.5", "2,", "3,0.75"]
    finished = listing.read(make(tmp_path / "a", rows, seed=7))
    assert finished.folder == str(tmp_path / "a")
    assert (finished.state, finished.done, finished.rounds) == ("finished", 3, 3)
    assert (finished.accuracy, finished.task, finished.algo) == (0.75, "mnist", "fedavg")
    assert finished.seed == 7
    assert finished.changed == os.path.getmtime(tmp_path / "a" / "metrics.csv")
    stopped = listing.read(make(tmp_path / "b", rows[:2]))
    assert (stopped.state, stopped.done, stopped.accuracy) == ("stopped", 2, 0.5)
    diverged = {"diverged_at_round": 2}
    assert listing.read(make(tmp_path / "c", rows[:2], summary=diverged)).state == "diverged"
    # It was started again after that, and came further.
    assert listing.read(make(tmp_path / "d", rows, summary=diverged)).state == "finished"


def test_a_run_whose_lock_is_held_is_running(tmp_path):
    folder = make(tmp_path / "a", ["1,0.5"])
    with folder_lock.FolderLock(folder):
        assert listing.read(folder).state == "running"
    assert listing.read(folder).state == "stopped"


def test_a_run_that_has_not_written_a_row(tmp_path):
    folder = make(tmp_path / "a", [])
    assert (listing.read(folder).done, listing.read(folder).accuracy) == (0, None)
    os.remove(tmp_path / "a" / "metrics.csv")
    assert (listing.read(folder).done, listing.read(folder).state) == (0, "stopped")


def test_a_later_accuracy_on_a_sample_counts(tmp_path):
    head, rows = "round,test_accuracy,sampled_test_accuracy", ["1,0.5,", "2,,0.25"]
    assert listing.read(make(tmp_path / "a", rows, head=head)).accuracy == 0.25


def test_an_analysis_is_finished_with_its_figures(tmp_path):
    folder = make(tmp_path / "a", [], rounds=4)
    (tmp_path / "a" / "similarity.csv").write_text("steps\n")
    assert (listing.read(folder).state, listing.read(folder).done) == ("finished", 4)


def test_runs_are_found_wherever_they_are_and_not_within_each_other(tmp_path):
    for name in ("b/seed-1", "b/seed-0", "a", "a/independent"):
        make(tmp_path / name, [])
    found = [os.path.relpath(folder, tmp_path) for folder in listing.find([str(tmp_path)])]
    assert found == ["a", "b/seed-0", "b/seed-1"]
    with pytest.raises(ResultsError, match="results must be a folder"):
        list(listing.find([str(tmp_path / "c")]))


@pytest.mark.parametrize(
    ("name", "content"),
    [
        ("config.json", "[]"),
        ("config.json", "{"),
        ("config.json", '{"settings": 3}'),
        ("config.json", '{"settings": {"rounds": "3"}}'),
        ("metrics.csv", "round,test_accuracy\n1\n"),
        ("metrics.csv", "round,test_accuracy\n1,much\n"),
        ("metrics.csv", "round,test_accuracy\n1,\x00\udc80\n"),
        ("summary.json", "{"),
    ],
)
def test_a_damaged_file_is_an_error_in_a_line(name, content, tmp_path):
    folder = make(tmp_path / "a", ["1,0.5"])
    (tmp_path / "a" / name).write_text(content, errors="surrogateescape")
    with pytest.raises(ResultsError):
        listing.read(folder)
