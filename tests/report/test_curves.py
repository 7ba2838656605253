"""Curves over seeds, with numbers computed by hand."""

from tests.report.report_folders import write_run
from tff_partial.report import curves, page, sections


def test_curves_are_means_over_seeds_with_their_deviation(results):
    write_run(results / "a", ["", 0.4, "", 0.6])
    write_run(results / "b", ["", 0.5, "", 0.9], seed=1)
    (section,) = sections.find([str(results)])
    (curve,) = curves.figure(section)["curves"]
    assert curve["quantities"]["test_accuracy"] == {
        "rounds": [2, 4],
        "seconds": [20, 40],
        "bytes": [3_000_000, 6_000_000],
        "mean": [45.0, 75.0],
        "spread": [7.07, 21.21],
    }


def test_accuracy_on_a_sample_is_a_quantity_of_its_own(results):
    write_run(results / "a", ["", ""], extra={"sampled_test_accuracy": 0.25, "test_examples": 9})
    (section,) = sections.find([str(results)])
    figure = curves.figure(section)
    assert list(figure["quantities"]) == ["sampled_test_accuracy", "train_loss"]
    (curve,) = figure["curves"]
    assert curve["quantities"]["sampled_test_accuracy"]["mean"] == [25.0, 25.0]


def test_unfinished_seeds_do_not_cut_finished_curves_short(results):
    write_run(results / "a", [0.1, 0.2, 0.3])
    write_run(results / "b", [0.9], seed=1, rounds=3)
    (section,) = sections.find([str(results)])
    (curve,) = curves.figure(section)["curves"]
    assert curve["quantities"]["test_accuracy"]["mean"] == [10.0, 20.0, 30.0]
    assert curve["seeds"] == 1


def test_every_curve_says_of_which_row_it_is(results):
    write_run(results / "a", [0.1])
    (section,) = sections.find([str(results)])
    assert [curve["id"] for curve in curves.figure(section)["curves"]] == [""]


def test_long_curves_are_thinned_and_values_that_are_no_numbers_left_out(results):
    write_run(results / "a", [i / 1000 for i in range(1000)], extra={"discrepancy": "nan"})
    (section,) = sections.find([str(results)])
    (curve,) = curves.figure(section)["curves"]
    points = curve["quantities"]["test_accuracy"]
    assert len(points["rounds"]) == curves.MOST_POINTS
    assert (points["rounds"][0], points["rounds"][-1]) == (1, 1000)
    assert "discrepancy" not in curve["quantities"]
    page.render([section])
