"""Writes results as one page to read and to pass on, or as Markdown.

    python -m tff_partial.report results/ --output=report.html
    python -m tff_partial.report results/ --markdown --remarks=docs/remarks --output=docs/results.md

The page needs no network and no other file. See docs/reproducing.md.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Sequence
from typing import Optional

from tff_partial.cli import command_line
from tff_partial.recipes import claims, drawings
from tff_partial.report import markdown, page, sections
from tff_partial.report.runs import ReportError
from tff_partial.results import text_files

PAGE = "report.html"


def main(arguments: Sequence[str]) -> int:
    """Write the report that the arguments ask for; return the exit code."""
    parser = command_line.Parser("report", __doc__)
    parser.add_argument("folders", nargs="+", help="Folders with runs or recipes below them.")
    parser.add_argument(
        "--output", help=f"File to write; default: {PAGE}, or the terminal with --markdown."
    )
    parser.add_argument("--markdown", action="store_true", help="Tables as Markdown, no curves.")
    parser.add_argument(
        "--remarks",
        help="Folder of remarks on the figures: <paper>/<name>.md and introduction.md.",
    )
    try:
        flags = parser.read(arguments)
        output = flags.output if flags.output is not None or flags.markdown else PAGE
        _check_output(output)
        parts = sections.add_remarks(sections.find(flags.folders), flags.remarks)
        findings = claims.of_sections(parts)
        if flags.markdown:
            introduction = sections.read_remarks(flags.remarks, "introduction")
            text = markdown.render(parts, introduction, findings)
        else:
            text = page.render(parts, findings, drawings.all_of())
        _write(output, text)
    except ValueError as error:
        for line in str(error).splitlines():
            command_line.fail(line)
        return 2
    return 0


def _check_output(path: Optional[str]) -> None:
    """Raise a ReportError before the work is done if the file cannot be written."""
    if path is None:
        return
    is_free = os.path.isfile(path) or not os.path.lexists(path)
    if not path or not is_free or not os.path.isdir(os.path.dirname(path) or "."):
        raise ReportError(
            f"output must be a regular file in a folder that exists. Received: {path!r}"
        )


def _write(path: Optional[str], text: str) -> None:
    if path is None:
        sys.stdout.write(text)
        return
    try:
        text_files.write_text(path, text)
    except (OSError, ValueError) as error:
        raise ReportError(
            f"output must be a file that can be written. Received: {error}"
        ) from error
    print(f"wrote {path} ({len(text.encode()) / 1000:,.0f} kB)", file=sys.stderr)
