"""Results as one page to read and to pass on, or as Markdown.

    python -m tff_partial.report results/ --output=report.html
    python -m tff_partial.report results/ --markdown --remarks=docs/remarks --output=docs/results.md

The page needs no network and no other file. See docs/report.md.
"""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Sequence
from typing import Optional

from tff_partial.report import markdown, page, remarks, sections
from tff_partial.report.runs import ReportError
from tff_partial.results import folder as results

PAGE = "report.html"


def main(argv: Sequence[str]) -> int:
    parser = argparse.ArgumentParser(
        prog="python -m tff_partial.report",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("folders", nargs="+", help="results folders: runs, recipes, or above them")
    parser.add_argument(
        "--output", help=f"file to write; default: {PAGE}, or the terminal with --markdown"
    )
    parser.add_argument("--markdown", action="store_true", help="tables as Markdown, no curves")
    parser.add_argument(
        "--remarks",
        help="folder of what is said of a recipe's figures, <paper>/<name>.md, and introduction.md",
    )
    flags = parser.parse_args(argv)
    output = flags.output if flags.output is not None or flags.markdown else PAGE
    try:
        _check_output(output)
        found = remarks.add(sections.find(flags.folders), flags.remarks)
        if flags.markdown:
            text = markdown.render(found, remarks.read(flags.remarks, "introduction"))
        else:
            text = page.render(found)
        _write(output, text)
    except ReportError as error:
        for line in str(error).splitlines():
            print(f"error: {' '.join(line.split())}", file=sys.stderr)
        return 2
    return 0


def _check_output(path: Optional[str]) -> None:
    """Before the work is done."""
    folder = os.path.dirname(path or "") or "."
    is_there = path is not None and os.path.lexists(path) and not os.path.isfile(path)
    if path is not None and (not path or is_there or not os.path.isdir(folder)):
        raise ReportError(
            f"output must be a regular file in a folder that is there. Received: {path!r}"
        )


def _write(path: Optional[str], text: str) -> None:
    if path is None:
        sys.stdout.write(text)
        return
    try:
        results.write_text(path, text)
    except (OSError, ValueError) as error:
        raise ReportError(
            f"output must be a file that can be written. Received: {error}"
        ) from error
    print(f"wrote {path} ({len(text.encode()) / 1000:,.0f} kB)", file=sys.stderr)
