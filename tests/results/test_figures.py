"""Curves of one run, and of several in one picture."""

import os

from matplotlib import image

from tests.results.run_folders import make_run
from tff_partial.results import figures


def test_points_are_by_local_steps_where_there_is_a_value(tmp_path):
    run = figures.read(make_run(tmp_path / "a"))
    assert figures.points(run, "test_accuracy", by_steps=True) == [(8.0, 0.5)]
    assert figures.points(run, "loss", by_steps=False) == [(1.0, 2.0), (2.0, 1.0)]


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
    panels = figures.curves(rows("weak", "0.3"), ["strong", "0.3", "weak"])
    assert list(panels) == ["loss", "accuracy", "training accuracy by tier"]
    assert panels["accuracy"]["test"] == [(1, 0.5), (3, 0.5)]
    assert list(panels["training accuracy by tier"]) == ["0.3", "weak"]
    assert panels["training accuracy by tier"]["weak"] == [(1, 0.1), (3, 0.1)]


def test_tests_on_a_sample_are_a_line_of_their_own():
    table = rows()
    assert list(figures.curves(table)["accuracy"]) == ["train", "test"]
    table[0] |= {"test_accuracy": None, "sampled_test_accuracy": 0.25, "test_examples": 1000.0}
    panels = figures.curves(table)
    assert panels["accuracy"]["test"] == [(3, 0.5)]
    assert panels["accuracy"]["test on 1,000 examples"] == [(1, 0.25)]
    assert "test on 1,000 examples" in panels["loss"]


def test_tiers_are_a_panel_of_the_picture(tmp_path):
    figures.plot_curves(str(tmp_path / "with.png"), "", rows("weak"), ["weak"])
    figures.plot_curves(str(tmp_path / "without.png"), "", rows())
    wide, narrow = (image.imread(tmp_path / f"{name}.png") for name in ("with", "without"))
    assert 2 * wide.shape[1] == 3 * narrow.shape[1]
    assert sorted(path.name for path in tmp_path.iterdir()) == ["with.png", "without.png"]


def test_curves_of_a_run_that_diverged_at_once_need_no_legend(tmp_path, caplog):
    rows = [{"round": 1.0, "train_loss": None, "test_loss": None}]
    figures.plot_curves(str(tmp_path / "curves.png"), "a run", rows)
    assert (tmp_path / "curves.png").stat().st_size > 0
    assert not caplog.records


def test_runs_of_the_same_name_are_told_apart(tmp_path, monkeypatch):
    drawn = []
    monkeypatch.setattr(figures, "draw", lambda panels, *unused: drawn.append(panels))
    monkeypatch.setattr(figures, "save", lambda figure, path: None)
    for names in (("a/x", "b/y"), ("a/x", "b/x")):
        for name in names:
            (tmp_path / name).parent.mkdir(exist_ok=True)
        paths = [str(tmp_path / name) for name in names]
        runs = [figures.read(p if os.path.exists(p) else make_run(tmp_path / p)) for p in paths]
        figures.plot(runs, ["test_accuracy"], "x.png")
    assert [list(panels["test accuracy"]) for panels in drawn] == [["x", "y"], paths]
