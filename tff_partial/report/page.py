"""The report as one HTML page that needs nothing beside itself.

Scripts and styles are part of the page, and its content security policy admits only these, by their
hashes: no text of labels or notes can become a script, and nothing is loaded from anywhere.
"""

from __future__ import annotations

import base64
import hashlib
import html
import json
import os
import re
import string
from collections.abc import Sequence
from typing import Optional, Union

from tff_partial.report import commands, curves, tables
from tff_partial.report.cells import MINUS, NONE, Cell, Line, Table
from tff_partial.report.recipes import Section
from tff_partial.report.runs import NOT_REAL, Row

ASSETS = os.path.join(os.path.dirname(os.path.abspath(__file__)), "assets")
# Where a figure has more curves than the first of these, only some are shown at first.
MOST_SHOWN, FIRST_SHOWN = 16, 8
_NUMBER = re.compile(rf"[{MINUS}+]?\d|{NONE}$")
MARK = f'<strong class="mark">{NOT_REAL}</strong>'


def render(sections: Sequence[Section]) -> str:
    """Return the page as text."""
    figures = [curves.figure(section) for section in sections]
    parts = [_section(i, each, figure) for i, (each, figure) in enumerate(zip(sections, figures))]
    styles = [_asset("uPlot.min.css"), _asset("page.css")]
    scripts = [_asset("uPlot.iife.min.js"), _asset("page.js")]
    return string.Template(_asset("page.html")).substitute(
        policy=_policy(scripts, styles),
        styles="".join(f"<style>{style}</style>" for style in styles),
        scripts="".join(f"<script>{script}</script>" for script in scripts),
        warning=_warning(sections),
        overview=_overview(sections),
        sections="\n".join(parts),
        figures=_json(figures),
        licence=_text(_asset("uPlot.LICENSE")),
    )


def _asset(name: str) -> str:
    with open(os.path.join(ASSETS, name), encoding="utf-8") as file:
        return file.read()


def _policy(scripts: Sequence[str], styles: Sequence[str]) -> str:
    def hashes(texts: Sequence[str]) -> str:
        digests = [hashlib.sha256(text.encode()).digest() for text in texts]
        return " ".join(f"'sha256-{base64.b64encode(digest).decode()}'" for digest in digests)

    return f"default-src 'none'; script-src {hashes(scripts)}; style-src {hashes(styles)}"


def _json(figures: Sequence[Optional[curves.Figure]]) -> str:
    """Return JSON that cannot end the script element it stands in."""
    text = json.dumps(figures, separators=(",", ":"), allow_nan=False)
    return text.replace("<", "\\u003c").replace(">", "\\u003e").replace("&", "\\u0026")


def _text(value: str) -> str:
    return html.escape(value, quote=True)


def _warning(sections: Sequence[Section]) -> str:
    if all(section.is_real for section in sections):
        return ""
    return (
        f'<p class="warning">Where it says {MARK}, other data stand in for the data set, mostly '
        "small embedded ones: such figures say nothing about it.</p>"
    )


def _overview(sections: Sequence[Section]) -> str:
    heads = ("part", "rows run", "setting", "data", "paper")
    lines = []
    for index, section in enumerate(sections):
        done = sum(bool(row.finished) for row in section.rows)
        cells = (
            f"{done} of {len(section.rows)}",
            _text(section.scale_text) or NONE,
            _marked("; ".join(section.data)) or "–",
            _text(section.results.paper) or "–",
        )
        link = f'<a href="#part-{index}">{_text(section.name)}</a>'
        columns = "".join(f'<td class="text">{cell}</td>' for cell in cells)
        lines.append(f'<tr><th scope="row">{link}</th>{columns}</tr>')
    label = "What is in this report"
    return _table_frame(label, label, heads, [True] * len(heads), lines)


def _marked(text: str) -> str:
    """Return the text in HTML, with the words that mark data set off."""
    return _text(text).replace(NOT_REAL, MARK)


def _with_code(text: str) -> str:
    """Return the text in HTML, with what stands in backticks as code."""
    return re.sub(r"`([^`]+)`", r"<code>\1</code>", _text(text))


def _mark(section: Section) -> str:
    """Return the data for captions if they are not the real set."""
    return "" if section.is_real else f". Data: {_marked('; '.join(section.data))}"


def _section(index: int, section: Section, figure: Optional[curves.Figure]) -> str:
    notes = "".join(f"<li>{_text(note)}</li>" for note in section.results.notes)
    remarks = [f'<p class="remark">{_with_code(text)}</p>' for text in section.remarks]
    first, *others = [_table(table, section) for table in tables.of_section(section)] or [""]
    return "\n".join(
        [
            f'<section id="part-{index}" aria-labelledby="title-{index}">',
            f'<h2 id="title-{index}">{_text(section.name)}</h2>',
            f'<p class="facts">{_marked(" ".join(section.facts))}</p>',
            first,
            _figure(index, figure, section),
            *others,
            *remarks,
            f'<ul class="notes">{notes}</ul>' if notes else "",
            _commands(section),
            "</section>",
        ]
    )


def _table(table: Table, section: Section) -> str:
    caption = _text(table.caption) + _mark(section)
    columns = [[line.cells[i] for line in table.lines] for i in range(len(table.heads) - 1)]
    is_text = [True, *map(_is_text, columns)]
    lines = [_line(line, is_text[1:]) for line in table.lines]
    return _table_frame(caption, _text(table.caption), table.heads, is_text, lines)


def _is_text(column: Sequence[Cell]) -> bool:
    """Return whether most of a column are words, which are aligned to the left."""
    words = [cell.tone != "missing" and not _NUMBER.match(cell.text) for cell in column]
    return 2 * sum(words) > len(words)


def _table_frame(
    caption: str, label: str, heads: Sequence[str], is_text: Sequence[bool], lines: Sequence[str]
) -> str:
    """Return a table that scrolls sideways; as a region, so that the keyboard can scroll it."""
    columns = "".join(
        f'<th scope="col"{_classes(text and "text")}>{_text(head)}</th>'
        for head, text in zip(heads, is_text)
    )
    return (
        f'<div class="table"><p class="caption" aria-hidden="true">{caption}</p>'
        f'<div class="scroll" role="region" tabindex="0" aria-label="{label}">'
        f'<table><caption class="unseen">{caption}</caption>'
        f"<thead><tr>{columns}</tr></thead><tbody>{''.join(lines)}</tbody></table></div></div>"
    )


def _line(line: Line, is_text: Sequence[bool]) -> str:
    mark = "" if line.is_real else f" {MARK}"
    cells = "".join(
        f"<td{_classes(cell.tone, text and 'text')}>{_text(cell.text)}</td>"
        for cell, text in zip(line.cells, is_text)
    )
    return f'<tr><th scope="row">{_text(line.head)}{mark}</th>{cells}</tr>'


def _classes(*names: Union[str, bool]) -> str:
    text = " ".join(str(name) for name in names if name)
    return f' class="{text}"' if text else ""


def _figure(index: int, figure: Optional[curves.Figure], section: Section) -> str:
    if figure is None:
        return ""
    total = len(figure["curves"])
    shown = total if total <= MOST_SHOWN else FIRST_SHOWN
    keys = "".join(_key(i, curve, i < shown) for i, curve in enumerate(figure["curves"]))
    some = f"; {shown} of {total} curves, the buttons below show others" if shown < total else ""
    choices = "".join(
        f'<label><input type="radio" name="x-{index}" value="{name}"'
        f"{' checked' if name == 'rounds' else ''}> {title}</label>"
        for name, title in curves.AXES.items()
    )
    options = "".join(
        f'<option value="{name}">{_text(title)}</option>'
        for name, title in figure["quantities"].items()
    )
    label = f"Curves of {section.title}; arrow keys read values, buttons below hide curves."
    target = "" if figure["target"] is None else f"; dashed: target {figure['target']:g} %"
    return (
        f'<figure data-figure="{index}"><figcaption>{_text(section.title)}: '
        f"mean over seeds, band of one standard deviation{target}{some}"
        f"{_mark(section)}</figcaption>"
        f'<div class="controls"><label class="quantity">show <select>{options}</select></label>'
        f'<fieldset class="x"><legend>against</legend>{choices}</fieldset></div>'
        f'<div class="plot" tabindex="0" role="img" aria-label="{_text(label)}"></div>'
        f'<p class="readout" aria-live="polite"></p><div class="keys">{keys}'
        '<div class="alls"><button type="button" class="all" data-show="1">show all</button>'
        '<button type="button" class="all" data-show="">hide all</button></div></div>'
        "<noscript><p>The curves need JavaScript; the tables do not.</p></noscript></figure>"
    )


def _key(number: int, curve: curves.Curve, is_shown: bool) -> str:
    mark = "" if curve["is_real"] else f" {MARK}"
    seeds = "1 seed" if curve["seeds"] == 1 else f"{curve['seeds']} seeds"
    pressed = str(is_shown).lower()
    return (
        f'<button type="button" class="key" aria-pressed="{pressed}" data-curve="{number}">'
        f'<span class="swatch"></span><span class="label">{_text(curve["label"])}{mark} '
        f'<small>{seeds}</small></span><output class="value"></output></button>'
    )


def _commands(section: Section) -> str:
    by_command = commands.grouped(section.rows)
    if not by_command:
        return ""
    items = []
    for command, rows in by_command.items():
        labels = "; ".join(_text(row.label) + ("" if row.is_real else f" {MARK}") for row in rows)
        folders = "".join(f"<p>Results: {_folders(row)}</p>" for row in rows if row.runs)
        items.append(
            f"<dt>{labels}</dt><dd><pre><code>{_command(command)}</code></pre>{folders}</dd>"
        )
    return (
        f"<details><summary>Commands that repeat the rows ({len(by_command)})</summary>"
        f"<dl>{''.join(items)}</dl></details>"
    )


def _command(command: str) -> str:
    """Return a command in HTML whose flags are not broken at their hyphens."""
    words = [(word, _text(word)) for word in command.split(" ")]
    return " ".join(
        f'<span class="flag">{text}</span>' if word.startswith("-") else text
        for word, text in words
    )


def _folders(row: Row) -> str:
    parents = {os.path.dirname(run.folder) for run in row.runs}
    if len(row.runs) > 1 and len(parents) == 1:
        names = ", ".join(_text(os.path.basename(run.folder)) for run in row.runs)
        return f"<code>{_text(parents.pop())}</code> ({names})"
    return ", ".join(f"<code>{_text(run.folder)}</code>" for run in row.runs)
