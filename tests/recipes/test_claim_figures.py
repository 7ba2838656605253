"""Figures that claims compare."""

import pytest

from tests.report.report_folders import row, write_recipe, write_run
from tff_partial.recipes import catalog, claim_figures, claim_rules
from tff_partial.report import recipes, runs
from tff_partial.results.schema import Config, Metric

ACCURACY = Metric("best_test_accuracy", "accuracy", "%")
ROUNDS, SECONDS = (Metric(f"{name}_to_target", name) for name in ("rounds", "simulated_seconds"))


@pytest.fixture
def run(results):
    """Four rounds of 10 simulated seconds each, with a target of 50 %."""
    extra = {"discrepancy": 0.25}
    write_run(results / "a", [0.2, 0.4, 0.6, 0.5], extra=extra)
    return runs.read_run(str(results / "a"), "a")


@pytest.mark.parametrize(
    ("metric", "key", "expected"),
    [
        (ACCURACY, "", (60.0, False)),
        (ROUNDS, "", (3, False)),
        (ROUNDS, "0.4", (2, False)),
        (ROUNDS, "0.9", (4, True)),
        (SECONDS, "0.4", (20.0, False)),
        (SECONDS, "0.9", (40.0, True)),
        (Metric("mean:test_accuracy", ""), "", (pytest.approx(0.425), False)),
        (Metric("last:discrepancy", ""), "", (0.25, False)),
        (Metric("last:global_loss", ""), "", None),
    ],
)
def test_a_run_is_measured_in_the_unit_of_its_metric(run, metric, key, expected):
    assert claim_figures.measure(run, metric, key) == expected


def test_a_similarity_is_that_of_the_last_measurement_of_a_block():
    rows = [
        {"scheme": "none", "name": "stem", "steps": str(steps), "maximum": value, "mean": "0"}
        for steps, value in ((10, "0.9"), (20, "0.8"))
    ]
    run = runs.Run("a", Config(), [], {}, rows)
    metric = Metric("svcca", "similarity")
    assert claim_figures.measure(run, metric, "none/stem") == (0.8, False)
    assert claim_figures.measure(run, metric, "none/other") is None


def test_figures_are_of_seeds_that_all_rows_have(results):
    folder = write_recipe(results, [row("a", 50.0), row("b", 50.0)])
    for name, seeds in (("a", (0, 1)), ("b", (1, 2))):
        for seed in seeds:
            write_run(folder / name / f"seed-{seed}", [0.1 * (seed + 1)], seed=seed)
    rows = {each.id: each for each in recipes.read(str(results), str(folder)).rows}
    comparisons = claim_rules.parse("a > b").comparisons
    found = claim_figures.by_seed(comparisons, rows, ACCURACY)
    assert found == {1: {"a": (20.0, False), "b": (20.0, False)}}
    assert claim_figures.accuracy_of(rows["a"], [0, 1]) == pytest.approx(15.0)
    assert claim_figures.accuracy_of(None, [0]) == 0.0


def test_a_baseline_needs_a_share_of_its_own_number_of_its_target_or_of_what_is_stated():
    table3, table7 = catalog.load("embracing/table3"), catalog.load("embracing/table7")
    needed = claim_figures.needed_accuracy
    assert needed(claim_rules.Baseline("case1", 0.8), table3) == pytest.approx(0.8 * 80.45)
    assert needed(claim_rules.Baseline("case7-width", 0.5), table7) == pytest.approx(27.0)
    assert needed(claim_rules.Baseline("case1", 0.9, 50.0), table3) == pytest.approx(45.0)


def test_the_papers_figure_is_computed_from_what_it_prints():
    (claim,) = catalog.load("fedumf/table4").claims
    (comparison,) = claim_rules.parse(
        "eta0.05-c0.1-fedumf@0.6 <= 0.7 * eta0.05-c0.1-fedavg@0.6"
    ).comparisons
    recipe = catalog.load("fedumf/table4")
    assert claim_figures.of_paper(comparison, recipe, claim) == pytest.approx(54 / 95)
    (missing,) = claim_rules.parse("eta0.01-c0.1-fedumf@0.7 > eta0.01-c0.1-fedavg@0.7").comparisons
    assert claim_figures.of_paper(missing, recipe, claim) is None  # not reached


def test_cells_are_equal_but_for_brackets():
    assert claim_figures.is_equal("10 (100 %)", "10 (1)")
    assert not claim_figures.is_equal("10 (100 %)", "11 (100 %)")
