"""The report's tables as Markdown, as GitHub renders it."""

from __future__ import annotations

import re
from collections.abc import Sequence

from tff_partial.report import commands, ledger, sweeps, tables
from tff_partial.report.cells import Line, Table
from tff_partial.report.ledger import Finding
from tff_partial.report.recipes import Section
from tff_partial.report.runs import NOT_REAL

INTRODUCTION = (
    "Made by `python -m tff_partial.report <results folders> --markdown`. Figures are mean ± "
    "standard deviation over seeds where there are several. Difference: ours minus the paper's. "
    "Other data that stand in for a data set, mostly small embedded ones, are marked "
    f"**{NOT_REAL}**: such figures say nothing about it."
)
_SPECIAL = re.compile(r"([\\`*\[\]|~])|(?<!\w)(_)|(_)(?!\w)")


def render(
    sections: Sequence[Section], introduction: str = "", findings: Sequence[Finding] = ()
) -> str:
    """Return the document as text.

    Args:
      sections: What is shown.
      introduction: Markdown of the user's own.
      findings: The ledger of claims.
    """
    head = ["# Results", INTRODUCTION, _ledger(findings), introduction]
    parts = [
        part(each, sweeps.verdict(each) or ledger.verdict_of(findings, each.results.recipe))
        for each in sections
    ]
    return "\n\n".join([*filter(None, head), *parts]) + "\n"


def _ledger(findings: Sequence[Finding]) -> str:
    """Return the counts, a table for each paper, and the claims that were not run."""
    if not findings:
        return ""
    parts = ["## Claims", escape(ledger.counts(findings))]
    for source in dict.fromkeys(finding.source for finding in findings):
        own = [finding for finding in findings if finding.source == source]
        was_run = [finding for finding in own if finding.verdict != ledger.NOT_RUN]
        if was_run:
            parts.append(_lines(f"{source}:", ledger.table(was_run)))
        missing = [f"{f.says} ({f.recipe})" for f in own if f.verdict == ledger.NOT_RUN]
        if missing:
            parts.append(
                "\n".join([f"{source}, not run:", "", *(f"- {escape(m)}" for m in missing)])
            )
    return "\n\n".join(parts)


def escape(text: str) -> str:
    """Return text as one line of Markdown that shows it literally."""
    text = " ".join(text.split())
    text = text.replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;")
    return _SPECIAL.sub(r"\\\g<0>", text)


def part(section: Section, verdict: str = "") -> str:
    """Return a part of the document: heading, verdict, facts, tables, remarks, notes, commands."""
    parts = [f"## {escape(section.name)}", escape(verdict), _marked(" ".join(section.facts))]
    parts += [_table(table, section) for table in tables.of_section(section)]
    parts += section.remarks
    parts += ["\n".join(f"- {escape(note)}" for note in section.results.notes), _commands(section)]
    return "\n\n".join(filter(None, parts))


def _marked(text: str) -> str:
    return escape(text).replace(NOT_REAL, f"**{NOT_REAL}**")


def _table(table: Table, section: Section) -> str:
    return _lines(f"{escape(table.caption)}:", table, section.is_mixed)


def _lines(caption: str, table: Table, is_mixed: bool = False) -> str:
    heads = f"| {' | '.join(map(escape, table.heads))} |"
    rule = f"|{'---|' * len(table.heads)}"
    return "\n".join([caption, "", heads, rule, *(_line(line, is_mixed) for line in table.lines)])


def _line(line: Line, is_mixed: bool) -> str:
    head = escape(line.head) + (f" (**{NOT_REAL}**)" if is_mixed and not line.is_real else "")
    cells = [escape(cell.text) for cell in line.cells]
    return f"| {' | '.join([head, *cells])} |"


def _commands(section: Section) -> str:
    """Return one block, in which each command follows the labels of its rows."""
    by_command = commands.grouped(section.rows)
    if not by_command:
        return ""
    lines = []
    for command, rows in by_command.items():
        lines += [f"# {'; '.join(row.label for row in rows)}"] if len(by_command) > 1 else []
        lines.append(command)
    summary = "<details><summary>Commands that repeat the rows</summary>"
    return f"{summary}\n\n{_fenced(chr(10).join(lines))}\n\n</details>"


def _fenced(text: str) -> str:
    """Return a code block whose fence is longer than any in the text."""
    longest = max((len(ticks) for ticks in re.findall(r"`+", text)), default=0)
    fence = "`" * max(3, longest + 1)
    return f"{fence}\n{text}\n{fence}"
