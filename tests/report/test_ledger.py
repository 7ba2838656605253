"""The ledger's sentences and figures."""

import pytest

from tff_partial.report import ledger
from tff_partial.report.ledger import FAILS, HOLDS, NOT_RUN, UNDECIDED, Estimate, Finding


def finding(verdict=HOLDS, **changes):
    return Finding("own/table1", "c", "A is better than B.", "table 1", verdict, **changes)


def test_counts_name_the_verdicts_that_there_are():
    found = [finding(), finding(), finding(FAILS), finding(NOT_RUN)]
    expected = "Of 4 claims of the papers, 2 hold, 1 do not hold, 1 are not run."
    assert ledger.counts(found) == expected


def test_a_recipe_is_judged_claim_by_claim():
    found = [finding(), finding(UNDECIDED, remark="one seed, no interval")]
    assert ledger.verdict_of(found, "own/table1") == (
        "Holds: A is better than B. Undecided (one seed, no interval): A is better than B."
    )
    assert ledger.verdict_of(found, "own/table2") == ""
    open_ones = [finding(ledger.NOT_RUN)] * 2
    assert ledger.verdict_of(open_ones, "own/table1") == "Not run: 2 claims."
    assert ledger.verdict_of([*found, open_ones[0]], "own/table1").endswith(
        " Not run: 1 other claim."
    )


@pytest.mark.parametrize(
    ("kind", "ours", "expected"),
    [
        ("difference", Estimate(1.234, -0.5, 2.0), "+1.23 [−0.50, +2.00]"),
        ("difference", Estimate(-1.234), "−1.23"),
        ("ratio", Estimate(0.5581, 0.5, 0.61), "0.56 [0.50, 0.61]"),
        ("value", Estimate(91.5, 91.5, 91.5), "91.5"),
        ("exact", Estimate(9), "9"),
        ("difference", None, "–"),
    ],
)
def test_figures_have_their_interval(kind, ours, expected):
    assert ledger.ours_text(finding(kind=kind, ours=ours)) == expected


def test_the_table_has_a_line_for_each_claim():
    found = finding(
        FAILS, quantity="a − b, points", ours=Estimate(-1.0, -2.0, -0.5), paper=3.0, seeds=3
    )
    (line,) = ledger.table([found]).lines
    texts = [cell.text for cell in line.cells]
    assert line.head == "A is better than B."
    assert texts == [
        "own/table1: table 1",
        "does not hold",
        "a − b, points",
        "−1.00 [−2.00, −0.50]",
        "+3.00",
        "3",
        "–",
    ]
    assert line.cells[1].tone == "worse"
