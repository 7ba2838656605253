"""What a run leaves in its folder, from its rows of metrics."""

from matplotlib import image

from tff_partial import results


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
    panels = results.curves(rows("weak", "0.3"), ["strong", "0.3", "weak"])
    assert list(panels) == ["loss", "accuracy", "training accuracy by tier"]
    assert panels["accuracy"]["test"] == [(1, 0.5), (3, 0.5)]
    assert list(panels["training accuracy by tier"]) == ["0.3", "weak"]
    assert panels["training accuracy by tier"]["weak"] == [(1, 0.1), (3, 0.1)]


def test_tiers_are_a_panel_of_the_picture(tmp_path):
    results.plot_curves(str(tmp_path / "with.png"), "", rows("weak"), ["weak"])
    results.plot_curves(str(tmp_path / "without.png"), "", rows())
    wide, narrow = (image.imread(tmp_path / f"{name}.png") for name in ("with", "without"))
    assert 2 * wide.shape[1] == 3 * narrow.shape[1]
    assert sorted(path.name for path in tmp_path.iterdir()) == ["with.png", "without.png"]
