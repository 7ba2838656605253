"""summary.json, with numbers computed by hand."""

import pytest

from tff_partial.results import summary

SETTINGS = {"task": "mnist", "algo": "fedavg", "target_accuracy": 0.5}


def rows(*accuracies):
    """Rounds with these test accuracies, of 1, 2, ... seconds."""
    return [
        {"round": i, "seconds": float(i), "test_accuracy": accuracy}
        for i, accuracy in enumerate(accuracies, start=1)
    ]


def test_figures_of_a_run():
    found = summary.summarize(SETTINGS, "toy", rows(0.2, None, 0.75, 0.5))
    assert (found["task"], found["algo"], found["data"]) == ("mnist", "fedavg", "toy")
    assert (found["rounds"], found["rounds_to_target"]) == (4, 3)
    assert (found["final_test_accuracy"], found["best_test_accuracy"]) == (0.5, 0.75)
    assert found["seconds_per_round_median"] == 2.5
    assert "diverged_at_round" not in found


def test_final_and_best_accuracy_are_of_all_test_examples():
    table = rows(None, None, 0.4)
    for row, accuracy in zip(table, (0.3, 0.9)):
        row |= {"sampled_test_accuracy": accuracy, "test_examples": 10.0}
    found = summary.summarize(SETTINGS, "toy", table)
    assert (found["final_test_accuracy"], found["best_test_accuracy"]) == (0.4, 0.4)
    assert (found["sampled_test_examples"], found["best_sampled_test_accuracy"]) == (10, 0.9)
    assert found["rounds_to_target"] == 2
    stopped = summary.summarize(SETTINGS, "toy", table[:2])
    assert stopped["final_test_accuracy"] is stopped["best_test_accuracy"] is None
    assert stopped["best_sampled_test_accuracy"] == 0.9
    assert "sampled_test_examples" not in summary.summarize(SETTINGS, "toy", rows(0.4))


def test_a_run_without_rounds_has_no_figures():
    found = summary.summarize(SETTINGS, "toy", [])
    assert found["rounds"] == 0
    for name in ("final_test_accuracy", "best_test_accuracy", "seconds_per_round_median"):
        assert found[name] is None


def test_a_tier_has_the_mean_of_the_last_five_rounds_that_it_took_part_in():
    table = rows(*[None] * 8)
    for i, row in enumerate(table):
        row |= {"clients_weak": int(i != 7), "train_accuracy_weak": 0.1 * i}
    found = summary.summarize({**SETTINGS, "tiers": "strong:1,weak:3"}, "toy", table)
    assert found["tiers"] == "strong:1,weak:3"
    assert found["train_accuracy_weak"] == pytest.approx(0.4)  # rounds 3 to 7: 0.2, ..., 0.6
    assert found["train_accuracy_strong"] is None


@pytest.mark.parametrize(
    ("settings", "names"),
    [
        ({}, []),
        ({"tiers": "strong:1,weak:3"}, ["strong", "weak"]),
        ({"tiers": "", "capacities": "1/2:0.5,1/4:0.5"}, ["1/2", "1/4"]),
    ],
)
def test_names_of_tiers_or_of_drawn_capacities(settings, names):
    assert summary.tier_names(settings) == names


@pytest.mark.parametrize(("value", "found"), [(3, 3), (0, None), (None, None), ("3", None)])
def test_the_round_of_divergence_is_a_positive_number(value, found):
    assert summary.diverged_at({"diverged_at_round": value}) == found
    diverged = summary.summarize(SETTINGS, "toy", rows(0.1), diverged_at_round=1)
    assert summary.diverged_at(diverged) == 1


def test_the_terminal_has_two_columns():
    assert (
        summary.format_table({"a": 0.5, "name": None, "x": 3}) == "a     0.5000\nname  -\nx     3"
    )


def test_final_accuracy_where_clients_are():
    table = rows(0.5, 0.6)
    for i, row in enumerate(table):
        row |= {"test_accuracy_memory_0.25": 0.1 * i, "test_accuracy_strong": None}
        row |= {"test_client_accuracy_lowest_tenth": 0.2 * i, "test_accuracy_local": 1.0}
    settings = {**SETTINGS, "tiers": "strong:1,memory:0.25:75%", "clients": 4}
    found = summary.summarize(settings, "toy", table)
    names = [name for name in found if name.startswith("final_test_")]
    assert {name: found[name] for name in names} == pytest.approx(
        {
            "final_test_accuracy": 0.6,
            "final_test_accuracy_memory_0.25": 0.1,
            "final_test_client_accuracy_lowest_tenth": 0.2,
        }
    )
