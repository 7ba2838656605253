"""Remarks on a recipe's figures, kept apart from the figures, which are made anew."""

from __future__ import annotations

import dataclasses
import os
import re
from collections.abc import Sequence
from typing import Optional

from tff_partial.report.recipes import Section
from tff_partial.report.runs import ReportError


def read(folder: Optional[str], name: str) -> str:
    """Return the text of `<folder>/<name>.md`; empty if there is none, or no folder is given.

    Raises:
      ReportError: If the folder does not exist, or the file cannot be read.
    """
    if folder is None:
        return ""
    if not os.path.isdir(folder):
        raise ReportError(f"remarks must be a folder. Received: {folder}")
    try:
        with open(os.path.join(folder, f"{name}.md"), encoding="utf-8") as file:
            return file.read().strip()
    except FileNotFoundError:
        return ""
    except (OSError, ValueError) as error:
        raise ReportError(f"remarks must be texts in UTF-8. Received: {error}") from error


def add(sections: Sequence[Section], folder: Optional[str]) -> list[Section]:
    """Return the sections with their remarks; a recipe that was run twice has them at its last.

    Raises:
      ReportError: As `read`.
    """
    names = [section.results.recipe for section in sections]
    last = {name: i for i, name in enumerate(names)}
    texts = [read(folder, n) if n and last[n] == i else "" for i, n in enumerate(names)]
    return [
        dataclasses.replace(section, remarks=tuple(filter(None, re.split(r"\n\s*\n", text))))
        for section, text in zip(sections, texts)
    ]
