"""Texts and tables in HTML."""

from __future__ import annotations

import html
import re
from collections.abc import Sequence
from typing import Union

from tff_partial.report.cells import MINUS, NONE, Cell, Line, Table
from tff_partial.report.runs import NOT_REAL

_NUMBER = re.compile(rf"[{MINUS}+]?\d|{NONE}$")
# Links of Markdown to pages and places in them; other schemes than these stay text.
_LINK = re.compile(r"\[([^\]]+)\]\(((?:https?://|#)[^\s)]*|[\w./-]+(?:#[\w-]+)?)\)")
MARK = f'<strong class="mark">{NOT_REAL}</strong>'


def text(value: str) -> str:
    """Return a text that stands for itself."""
    return html.escape(value, quote=True)


def marked(value: str) -> str:
    """Return the text, with the words that mark data set off."""
    return text(value).replace(NOT_REAL, MARK)


def paragraph(value: str) -> str:
    """Return a remark: what stands in backticks as code, links of Markdown as links."""
    escaped = re.sub(r"`([^`]+)`", r"<code>\1</code>", text(value))
    return _LINK.sub(r'<a href="\2">\1</a>', escaped)


def classes(*names: Union[str, bool]) -> str:
    """Return the attribute with the names that are not empty."""
    joined = " ".join(str(name) for name in names if name)
    return f' class="{joined}"' if joined else ""


def table(content: Table, is_mixed: bool) -> str:
    """Return a table; on a phone its lines become cards.

    Args:
      content: The table.
      is_mixed: Whether lines whose data are not the real set are marked.
    """
    columns = [[line.cells[i] for line in content.lines] for i in range(len(content.heads) - 1)]
    is_text = [True, *map(_is_text, columns)]
    heads = "".join(
        f'<th scope="col"{classes(words and "text")}>{text(head)}</th>'
        for head, words in zip(content.heads, is_text)
    )
    lines = "".join(_line(line, content.heads, is_text, is_mixed) for line in content.lines)
    caption = text(content.caption)
    return (
        f'<div class="table"><p class="caption" aria-hidden="true">{caption}</p>'
        f'<div class="scroll" role="region" tabindex="0" aria-label="{caption}">'
        f'<table><caption class="unseen">{caption}</caption>'
        f"<thead><tr>{heads}</tr></thead><tbody>{lines}</tbody></table></div></div>"
    )


def _is_text(column: Sequence[Cell]) -> bool:
    """Return whether most of a column are words, which are aligned to the left."""
    words = [cell.tone != "missing" and not _NUMBER.match(cell.text) for cell in column]
    return 2 * sum(words) > len(words)


def _line(line: Line, heads: Sequence[str], is_text: Sequence[bool], is_mixed: bool) -> str:
    mark = f" {MARK}" if is_mixed and not line.is_real else ""
    cells = "".join(
        f'<td{classes(cell.tone, words and "text")} data-head="{text(head)}">{text(cell.text)}</td>'
        for cell, head, words in zip(line.cells, heads[1:], is_text[1:])
    )
    return f'<tr><th scope="row">{text(line.head)}{mark}</th>{cells}</tr>'
