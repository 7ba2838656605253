"""The plan of what is still to be run."""

import pathlib
import re

from tff_partial.recipes import catalog, claims, evidence
from tff_partial.report import ledger, sections
from tff_partial.report.ledger import HOLDS, UNDECIDED, Finding

ROOT = pathlib.Path(__file__).parents[2]


def finding(recipe, claim, verdict=UNDECIDED):
    found = next(each for each in catalog.load(recipe).claims if each.id == claim)
    return Finding(recipe, claim, found.says, found.where, verdict)


def test_cheap_claims_come_first_and_shared_runs_count_once():
    def need(name, recipe, **minutes):
        return evidence.Need(Finding(recipe, name, name, "", UNDECIDED), "", minutes)

    needs = [
        need("slow", "p/one", a=50.0),
        need("both", "p/two", a=10.0, b=5.0),
        need("first", "p/two", a=10.0),
    ]
    found = [(each.finding.id, cost) for each, cost in evidence.ordered(needs)]
    assert found == [("first", 10.0), ("both", 5.0), ("slow", 50.0)]


def test_the_document_has_a_command_for_every_open_claim():
    findings = [
        finding("embracing/table3", "half-weak"),
        finding("embracing/figure3", "output-half-more-similar"),
        finding("fedumf/table1", "fewer-rounds", HOLDS),
    ]
    rounds = []
    text = evidence.document(findings, lambda run: rounds.append(run.total_rounds) or 2.0)
    commands = re.findall(
        r"\| (\d+) \| `python run_experiment.py (.*?) --data_dir=<folder>` \|", text
    )
    assert commands == [
        ("2", "--recipe=embracing/figure3 --scale=0.1 --only=cifar10 --seeds=3"),
        ("4", "--recipe=embracing/table3 --reduced --only=case5,case1 --seeds=3"),
    ]
    reduced = catalog.load("embracing/table3").rows[0].reduced["rounds"].value
    assert rounds == [reduced, reduced, 30]  # a tenth of 100 rounds for each of three schemes
    assert text.endswith("(fedumf/table1): **holds**\n")


def test_the_page_lists_the_claims_that_are_decided_and_those_that_are_not():
    findings = claims.of_sections(sections.find([str(ROOT / "docs" / "runs")]))
    todo, done = (ROOT / "docs" / "evidence.md").read_text().split("## Done")
    for each in findings:
        is_done = each.verdict in ledger.DECIDED
        assert each.says in re.sub(r"\\", "", done if is_done else todo), each.name
