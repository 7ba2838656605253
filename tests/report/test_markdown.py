"""The report as Markdown."""

import pathlib

from tff_partial.recipes import claims
from tff_partial.report import markdown, sections

ROOT = pathlib.Path(__file__).parents[2]


def test_documented_results_are_what_the_report_makes_of_their_runs():
    found = sections.add_remarks(
        sections.find([str(ROOT / "docs" / "runs")]), str(ROOT / "docs" / "remarks")
    )
    introduction = sections.read_remarks(str(ROOT / "docs" / "remarks"), "introduction")
    findings = claims.of_sections(found)
    expected = markdown.render(found, introduction, findings)
    assert (ROOT / "docs" / "results.md").read_text() == expected


def test_special_characters_are_shown_as_they_are():
    assert markdown.escape("a|b *c*\n<d> `e`") == r"a\|b \*c\* &lt;d&gt; \`e\`"
    assert markdown.escape("_x_ snake_case & [1]") == r"\_x\_ snake_case &amp; \[1\]"
