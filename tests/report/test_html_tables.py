"""Texts and tables in HTML."""

import pytest

from tff_partial.report import html_tables
from tff_partial.report.cells import Cell, Line, Table


@pytest.mark.parametrize(
    ("remark", "expected"),
    [
        ("`a < b`", "<code>a &lt; b</code>"),
        ("see [studies](studies.md#imdb)", 'see <a href="studies.md#imdb">studies</a>'),
        ("[page](https://a.org/b)", '<a href="https://a.org/b">page</a>'),
        ("[x](javascript:alert(1))", "[x](javascript:alert(1))"),
        ("[x](data:text/html,y)", "[x](data:text/html,y)"),
        ('[x](a"b.md)', "[x](a&quot;b.md)"),
    ],
)
def test_remarks_have_code_and_links_and_no_scripts(remark, expected):
    assert html_tables.paragraph(remark) == expected


def test_cells_know_their_head_for_cards_and_words_are_set_to_the_left():
    lines = (
        Line("a", (Cell("1.5", "better"), Cell("words")), True),
        Line("b", (Cell("–"), Cell("others")), False),
    )
    content = Table("A & B", ("row", "figure", "kind"), lines)
    html = html_tables.table(content, is_mixed=True)
    assert '<td class="better" data-head="figure">1.5</td>' in html
    assert '<td class="text" data-head="kind">words</td>' in html
    assert f'<th scope="row">b {html_tables.MARK}</th>' in html
    assert html_tables.MARK not in html_tables.table(content, is_mixed=False)
    assert 'aria-label="A &amp; B"' in html
