"""Verdicts: intervals, seeds, baselines, and what the documents say."""

import json
import math
import pathlib

import numpy as np
import pytest

from tests.report.report_folders import row, write_recipe, write_run
from tff_partial.recipes import catalog, claim_rules, claims, schema
from tff_partial.report import ledger, sections
from tff_partial.report.ledger import FAILS, HOLDS, NOT_LEARNT, NOT_RUN, UNDECIDED

ROOT = pathlib.Path(__file__).parents[2]
# 97.5 % quantiles of Student's t with 1, 2 and 3 degrees of freedom, from a printed table.
QUANTILES = {2: 12.706, 3: 4.303, 4: 3.182}


@pytest.mark.parametrize("values", [[1.0, 2.0], [0.3, 0.1, 0.7], [5.0, 4.0, 6.5, 4.5]])
def test_intervals_are_those_of_students_t(values):
    found = claims.estimate(values)
    half = QUANTILES[len(values)] * np.std(values, ddof=1) / math.sqrt(len(values))
    assert found.mean == pytest.approx(np.mean(values))
    assert (found.low, found.high) == pytest.approx(
        (found.mean - half, found.mean + half), rel=1e-3
    )


def test_one_seed_has_no_interval():
    assert claims.estimate([3.0]) == (3.0, None, None)


@pytest.mark.parametrize(
    ("rule", "low", "high", "at_least", "expected"),
    [
        ("a >= b - 1", -0.9, 0.5, (), HOLDS),
        ("a >= b - 1", -1.1, 0.5, (), UNDECIDED),
        ("a >= b - 1", -3.0, -1.1, (), FAILS),
        ("a < b", -3.0, -1.1, (), HOLDS),
        ("a < b", None, None, (), UNDECIDED),
        ("a < b", 0.0, 0.0, (), FAILS),
        ("a <= 0.7 * b", 0.5, 0.6, ("b",), HOLDS),  # b is larger still
        ("a <= 0.7 * b", 0.5, 0.6, ("a",), UNDECIDED),
        ("a <= 0.7 * b", 0.8, 0.9, ("b",), UNDECIDED),
        ("a <= 0.7 * b", 0.8, 0.9, ("a",), FAILS),
        ("a <= 0.7 * b", 0.8, 0.9, ("a", "b"), UNDECIDED),
    ],
)
def test_a_comparison_is_decided_by_its_whole_interval(rule, low, high, at_least, expected):
    (comparison,) = claim_rules.parse(rule).comparisons
    found = ledger.Estimate(0.0, low, high)
    assert claims.judge(comparison, found, at_least) == expected


def test_a_chain_fails_with_one_step():
    assert claims.combine([HOLDS, UNDECIDED, FAILS]) == FAILS
    assert claims.combine([HOLDS, UNDECIDED]) == UNDECIDED
    assert claims.combine([HOLDS, HOLDS]) == HOLDS


@pytest.fixture
def own(monkeypatch):
    """Makes a recipe of these claims the only one there is."""

    def make(rule, metric="best_test_accuracy", unit="%", kind="runs", share=0.9):
        claim = {"id": "c", "says": "A is better.", "where": "table 0", "rule": rule}
        if kind == "runs":
            claim["baseline"] = {"row": "b", "share": share}
        settings = {"task": "mnist", "algo": "fedavg", "paper": "fedumf", "target_accuracy": 0.5}
        settings = settings if kind == "runs" else {}
        rows = [{"id": n, "label": n, "paper": p, "settings": settings} for n, p in ROWS.items()]
        content = {"name": metric, "label": "accuracy", "unit": unit, "higher_is_better": True}
        data = {"title": "T", "paper": "P", "kind": kind, "metric": content, "rows": rows}
        source = {} if kind == "runs" else {"source": "s"}
        recipe = schema.parse("own/table0", {**data, **source, "claims": [claim]})
        monkeypatch.setattr(catalog, "names", lambda: ["own/table0"])
        monkeypatch.setattr(catalog, "load", lambda name: recipe)

    return make


ROWS = {"a": "60.0", "b": "50.0"}


def finding(results):
    (found,) = claims.of_sections(sections.find([str(results)]))
    return found


def write(results, accuracies, scale=1, is_real=True, **changes):
    """Runs of two rows: row -> the accuracies of its seeds, one after the other."""
    rows = [row(name, float(paper)) for name, paper in ROWS.items()]
    folder = write_recipe(results, rows, "own/table0", scale, **changes)
    for name, values in accuracies.items():
        for seed, value in enumerate(values):
            rounds = value if isinstance(value, list) else [value]
            write_run(folder / name / f"seed-{seed}", rounds, is_real=is_real, seed=seed)
    return folder


def test_differences_are_paired_by_seed(results, own):
    own("a > b")
    # The seeds differ far more than the rows: unpaired nothing could be said.
    write(results, {"a": [0.52, 0.73, 0.94], "b": [0.50, 0.70, 0.92]})
    found = finding(results)
    assert (found.verdict, found.seeds, found.paper) == (HOLDS, 3, 10.0)
    half = QUANTILES[3] * np.std([2, 3, 2], ddof=1) / math.sqrt(3)
    assert found.ours == pytest.approx((7 / 3, 7 / 3 - half, 7 / 3 + half), rel=1e-3)
    assert (found.quantity, ledger.ours_text(found)) == ("a − b, points", "+2.33 [+0.90, +3.77]")


def test_only_seeds_that_both_rows_finished_count(results, own):
    own("a > b")
    write(results, {"a": [0.6, 0.7, 0.8], "b": [0.5]})
    found = finding(results)
    assert (found.verdict, found.seeds) == (UNDECIDED, 1)
    assert found.remark == "one seed, no interval"


def test_nothing_is_said_if_the_baseline_has_not_learnt(results, own):
    own("a > b")
    write(results, {"a": [0.6, 0.61], "b": [0.44, 0.44]})
    found = finding(results)
    assert (found.verdict, found.ours) == (NOT_LEARNT, None)
    assert found.remark == "b: 44.0 %, 45.0 % are needed"


def test_embedded_data_and_rows_without_runs_decide_nothing(results, own):
    own("a > b")
    folder = write(results, {"a": [0.6, 0.61], "b": [0.5, 0.5]}, is_real=False)
    assert claims.of_sections(sections.find([str(results)])) == []
    content = json.loads((folder / "recipe.json").read_text())
    assert content["recipe"] == "own/table0"


def test_the_setting_nearest_to_the_papers_that_decides_counts(results, own):
    own("a > b")
    write(results / "whole", {"a": [0.6], "b": [0.5]})
    write(results / "tenth", {"a": [0.5, 0.5, 0.5], "b": [0.6, 0.6, 0.6]}, scale=0.1)
    changes = {"reduced": True, "differences": "2 of 9 rounds"}
    write(results / "less", {"a": [0.6, 0.61, 0.6], "b": [0.5, 0.5, 0.5]}, **changes)
    found = finding(results)
    assert (found.verdict, found.setting) == (HOLDS, "reduced: 2 of 9 rounds")


def test_rounds_of_a_run_that_missed_its_target_are_a_lower_bound(results, own):
    own("a <= 0.6 * b", "rounds_to_target", "rounds", share=0.5)
    late = [[0.2, 0.3, 0.3, 0.3]] * 2  # the target of the runs is 50 %
    metric = {"name": "rounds_to_target", "label": "rounds"}
    write(results, {"a": [[0.2, 0.6, 0.6, 0.6]] * 2, "b": late}, metric=metric)
    found = finding(results)
    assert (found.verdict, found.ours.mean) == (HOLDS, 0.5)
    own("a <= 0.4 * b", "rounds_to_target", "rounds", share=0.5)
    found = finding(results)
    assert (found.verdict, found.remark) == (UNDECIDED, "target not reached by b")


def test_exact_tables_are_decided_without_seeds(results, own):
    rows = [row(name, {"value": 1.0, "text": text}) for name, text in ROWS.items()]
    folder = write_recipe(results, rows, "own/table0", 1, kind="exact")
    for name, text in (("a", "60.0 (1.00)"), ("b", "51.0")):
        (folder / name / "seed-0").mkdir(parents=True)
        summary = {"resources": float(text[:2]), "text": text}
        (folder / name / "seed-0" / "summary.json").write_text(json.dumps(summary))
    own("equal", "resources", "", "exact")
    found = finding(results)
    assert (found.verdict, found.ours.mean, found.paper) == (FAILS, 1, 2)
    own("a > b + 8", "resources", "", "exact")
    found = finding(results)
    assert (found.verdict, found.seeds, found.ours.mean) == (HOLDS, 0, 9.0)


def test_the_documents_say_what_the_runs_say():
    findings = claims.of_sections(sections.find([str(ROOT / "docs" / "runs")]))
    assert {finding.verdict for finding in findings} <= {*ledger.VERDICTS}
    document = (ROOT / "docs" / "results.md").read_text()
    head = document.partition("\n## Claims")[2].partition("\n## ")[0]
    page = (ROOT / "docs" / "report.html").read_text()
    for each in findings:
        line = next(line for line in head.splitlines() if each.says in line.replace("\\", ""))
        assert each.verdict == NOT_RUN or f"| {each.verdict}" in line
        assert f'data-claim="{each.name}" data-verdict="{each.verdict}"' in page
    assert ledger.counts(findings) in head
    assert ledger.counts(findings) in " ".join((ROOT / "README.md").read_text().split())
