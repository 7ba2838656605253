"""What a run leaves in its folder, from its rows of metrics."""

import os

import pytest
from matplotlib import image

from tff_partial.results import folder


def rows(*tiers):
    """Three rounds, evaluated every second; tiers take part in the first and the last."""
    found = []
    for done in (1, 2, 3):
        tested = 0.5 if done % 2 else None
        row = {"round": done, "train_loss": 1.0, "train_accuracy": 0.2 * done}
        row |= {"test_loss": tested, "test_accuracy": tested}
        for tier in tiers:
            row |= {f"train_accuracy_{tier}": 0.1 * (done % 2), f"clients_{tier}": done % 2}
        found.append(row)
    return found


def test_curves_of_tiers_leave_out_rounds_without_their_clients():
    panels = folder.curves(rows("weak", "0.3"), ["strong", "0.3", "weak"])
    assert list(panels) == ["loss", "accuracy", "training accuracy by tier"]
    assert panels["accuracy"]["test"] == [(1, 0.5), (3, 0.5)]
    assert list(panels["training accuracy by tier"]) == ["0.3", "weak"]
    assert panels["training accuracy by tier"]["weak"] == [(1, 0.1), (3, 0.1)]


def test_tiers_are_a_panel_of_the_picture(tmp_path):
    folder.plot_curves(str(tmp_path / "with.png"), "", rows("weak"), ["weak"])
    folder.plot_curves(str(tmp_path / "without.png"), "", rows())
    wide, narrow = (image.imread(tmp_path / f"{name}.png") for name in ("with", "without"))
    assert 2 * wide.shape[1] == 3 * narrow.shape[1]
    assert sorted(path.name for path in tmp_path.iterdir()) == ["with.png", "without.png"]


def test_only_regular_files_are_read_and_replaced(tmp_path):
    """A pipe would be waited for; /dev/null would become a file, for a user who may do that."""
    os.mkfifo(tmp_path / "pipe")
    os.symlink("/dev/null", tmp_path / "null")
    os.symlink(tmp_path / "none", tmp_path / "dangling")
    (tmp_path / "folder").mkdir()
    before = sorted(path.name for path in tmp_path.iterdir())
    for name in before:
        with pytest.raises(folder.ResultsError, match=f"must be a regular one.*{name}"):
            folder.write_text(str(tmp_path / name), "x")
        with pytest.raises(folder.ResultsError, match=f"must be a regular one.*{name}"):
            folder.read_json(str(tmp_path / name))
    assert sorted(path.name for path in tmp_path.iterdir()) == before
    folder.write_json(str(tmp_path / "new"), {"a": 1})
    folder.write_json(str(tmp_path / "new"), {"a": 2})
    assert folder.read_json(str(tmp_path / "new")) == {"a": 2}


def test_curves_of_a_run_that_diverged_at_once_need_no_legend(tmp_path, caplog):
    rows = [{"round": 1.0, "train_loss": None, "test_loss": None}]
    folder.plot_curves(str(tmp_path / "curves.png"), "a run", rows)
    assert (tmp_path / "curves.png").stat().st_size > 0
    assert not caplog.records
