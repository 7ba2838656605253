"""Prints the ledger: what our runs say about each claim of the papers.

    python -m tff_partial.claims
    python -m tff_partial.claims results/ --paper=fedumf

Without folders those of the repository, docs/runs. See docs/reproducing.md.
"""

from __future__ import annotations

import pathlib
import re
from collections.abc import Sequence

from tff_partial.cli import command_line
from tff_partial.recipes import catalog, claims, evidence
from tff_partial.report import ledger, sections
from tff_partial.report.ledger import Finding
from tff_partial.results import text_files

RUNS = catalog.FOLDER.parent / "docs" / "runs"
_COUNTS = re.compile(r"Of \d+ claims of the papers, [^.]*\.")


def main(arguments: Sequence[str]) -> int:
    """Print the ledger; return the exit code."""
    parser = command_line.Parser("claims", __doc__)
    parser.add_argument("folders", nargs="*", help="Folders with recipes below them.")
    parser.add_argument("--paper", choices=catalog.PAPERS, help="Claims of one paper.")
    parser.add_argument("--counts_in", help="Write the counts into this file instead.")
    parser.add_argument("--evidence", help="Write what is still to be run into this file instead.")
    try:
        flags = parser.read(arguments)
        findings = claims.of_sections(sections.find(flags.folders or [str(RUNS)]))
        if flags.counts_in:
            path = pathlib.Path(flags.counts_in)
            text = _COUNTS.sub(ledger.counts(findings), path.read_text(encoding="utf-8"))
            text_files.write_text(str(path), text)
            return 0
        if flags.evidence:
            text = evidence.document(findings, evidence.estimated())
            text_files.write_text(flags.evidence, text)
            return 0
    except (OSError, ValueError) as error:
        for line in str(error).splitlines():
            command_line.fail(line)
        return 2
    papers = (flags.paper,) if flags.paper else catalog.PAPERS
    chosen = [each for each in findings if each.recipe.partition("/")[0] in papers]
    for finding in chosen:
        print(_text(finding))
    print(ledger.counts(chosen))
    return 0


def _text(finding: Finding) -> str:
    """Return a claim in three lines."""
    figures = (
        finding.quantity,
        f"ours: {ledger.ours_text(finding)}",
        f"paper: {ledger.paper_text(finding)}",
        f"seeds: {finding.seeds}" if finding.seeds else "",
        finding.setting,
    )
    remark = f" ({finding.remark})" if finding.remark else ""
    return (
        f"{finding.verdict.upper()}{remark}: {finding.says}\n"
        f"  {finding.recipe}, {finding.where}\n"
        f"  {'; '.join(filter(None, figures))}\n"
    )
