"""Folders for what runs keep on disk while they train."""

import os

from tff_partial.system import folder_lock, scratch_folders


def test_each_run_has_a_folder_for_its_records_and_those_of_killed_runs_are_removed(tmp_path):
    parent = tmp_path / "records"
    killed = parent / f"{scratch_folders.PREFIX}0123456789abcdef"
    killed.mkdir(parents=True)
    (killed / folder_lock.NAME).write_text("process 1\n")
    (killed / "3-0-0-0").write_text("record")
    mine = ["record-fedcba9876543210", "run-1"]  # without a lock, and the results of a run
    for name in mine:
        (parent / name).mkdir()
    (parent / "run-1" / folder_lock.NAME).write_text("process 1\n")
    with (
        scratch_folders.own(str(parent), "results/a") as first,
        scratch_folders.own(str(parent), "results/b") as second,
    ):
        assert first != second
        assert os.path.isdir(first)
        assert not killed.exists()
    assert sorted(p.name for p in parent.iterdir()) == [mine[0], "records.lock", mine[1]]
