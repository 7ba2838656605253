"""The ledger on the page."""

import re

from tff_partial.report import page_ledger
from tff_partial.report.ledger import HOLDS, NOT_RUN, UNDECIDED, Estimate, Finding

FOUND = (
    Finding("two/t", "n", "Nobody ran <this>.", "table 1", NOT_RUN, paper=3.0),
    Finding("one/t", "u", "Maybe.", "table 2", UNDECIDED, ours=Estimate(1.0), remark="one seed"),
    Finding("one/t", "h", "Yes.", "table 3", HOLDS, ours=Estimate(1.0, 0.5, 2.0), seeds=3),
)


def test_verdicts_come_first_and_recipes_that_are_shown_are_linked():
    html = page_ledger.render(FOUND, {"one/t": "part-4"})
    assert re.findall(r'data-claim="([^"]*)"', html) == ["one/t#h", "one/t#u", "two/t#n"]
    assert html.count('<a href="#part-4">one/t</a>') == 2
    assert "two/t; table 1" in html
    assert "Nobody ran &lt;this&gt;." in html
    assert "ours +1.00 [+0.50, +2.00]" in html
    assert "3 seeds" in html


def test_papers_and_verdicts_can_be_chosen():
    html = page_ledger.render(FOUND, {})
    assert re.findall(r"<option[^>]*>(\w+)", html) == ["all", "one", "two"]
    boxes = re.findall(r'value="([^"]*)"( checked)?> ', html)
    assert boxes == [(HOLDS, " checked"), (UNDECIDED, " checked"), (NOT_RUN, "")]


def test_without_claims_there_is_no_ledger():
    assert page_ledger.render((), {}) == ""
