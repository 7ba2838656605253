"""The report as one HTML page that needs nothing beside itself.

Scripts and styles are part of the page, and its content security policy admits only these, by their
hashes: no text of labels or notes can become a script, and nothing is loaded from anywhere.
"""

from __future__ import annotations

import base64
import hashlib
import json
import os
import string
from collections.abc import Mapping, Sequence
from typing import Optional

from tff_partial.report import commands, curves, html_tables, ledger, page_ledger, sweeps, tables
from tff_partial.report.html_tables import MARK, marked, text
from tff_partial.report.ledger import Finding
from tff_partial.report.recipes import Section
from tff_partial.report.runs import Row
from tff_partial.results import neurons, pictures

ASSETS = os.path.join(os.path.dirname(os.path.abspath(__file__)), "assets")
# Where a figure has more curves than the first of these, only some are shown at first.
MOST_SHOWN, FIRST_SHOWN = 16, 8
_ZOOM = (
    '<div class="zoom"><button type="button" data-zoom="0.5">zoom in</button>'
    '<button type="button" data-zoom="2">zoom out</button>'
    '<button type="button" data-zoom="0">all</button></div>'
)


def render(
    sections: Sequence[Section],
    findings: Sequence[Finding] = (),
    drawings: Optional[Mapping[str, Sequence[curves.Drawing]]] = None,
) -> str:
    """Return the page as text.

    Args:
      sections: What is shown.
      findings: The ledger of claims, which stands first.
      drawings: Recipe -> the papers' figures that are drawn from its curves.
    """
    figures = [curves.figure(section) for section in sections]
    drawn = [(drawings or {}).get(each.results.recipe, ()) for each in sections]
    parts = [
        _section(
            i,
            each,
            figure,
            of_paper,
            sweeps.verdict(each) or ledger.verdict_of(findings, each.results.recipe),
        )
        for i, (each, figure, of_paper) in enumerate(zip(sections, figures, drawn))
    ]
    # A recipe that was run twice is shown at its first part.
    places = {each.results.recipe: f"part-{i}" for i, each in reversed([*enumerate(sections)])}
    styles = [_asset("uPlot.min.css"), _asset("page.css")]
    scripts = [_asset("uPlot.iife.min.js"), _asset("page.js")]
    return string.Template(_asset("page.html")).substitute(
        policy=_policy(scripts, styles),
        styles="".join(f"<style>{style}</style>" for style in styles),
        scripts="".join(f"<script>{script}</script>" for script in scripts),
        warning=_warning(sections),
        claims='<a href="#claims">Claims</a>' if findings else "",
        menu=_menu(sections),
        ledger=page_ledger.render(findings, places),
        sections="\n".join(parts),
        figures=_json(figures),
        licence=text(_asset("uPlot.LICENSE")),
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


def _warning(sections: Sequence[Section]) -> str:
    if all(section.is_real for section in sections):
        return ""
    return (
        f'<p class="warning">Where it says {MARK}, other data stand in for the data set, mostly '
        "small embedded ones: such figures say nothing about it.</p>"
    )


def _menu(sections: Sequence[Section]) -> str:
    """Return links to the parts, with what was run of each."""
    links = []
    for index, section in enumerate(sections):
        mark = "" if section.is_real else f" {MARK}"
        covered = f" <small>{text(section.coverage)}{mark}</small>" if section.coverage else mark
        links.append(f'<li><a href="#part-{index}">{text(section.name)}</a>{covered}</li>')
    return f"<ol>{''.join(links)}</ol>"


def _section(
    index: int,
    section: Section,
    figure: Optional[curves.Figure],
    drawings: Sequence[curves.Drawing],
    verdict: str,
) -> str:
    notes = "".join(f"<li>{html_tables.paragraph(note)}</li>" for note in section.results.notes)
    remarks = [f'<p class="remark">{html_tables.paragraph(each)}</p>' for each in section.remarks]
    found = [html_tables.table(each, section.is_mixed) for each in tables.of_section(section)]
    first, *others = found or [""]
    return "\n".join(
        [
            f'<section id="part-{index}" aria-labelledby="title-{index}">',
            f'<h2 id="title-{index}">{text(section.name)}</h2>',
            f'<p class="judged">{text(verdict)}</p>' if verdict else "",
            f'<p class="facts">{marked(" ".join(section.facts))}</p>',
            first,
            _pictures(section),
            _figure(index, figure, section, drawings),
            *others,
            *remarks,
            f'<ul class="notes">{notes}</ul>' if notes else "",
            _commands(section),
            "</section>",
        ]
    )


def _pictures(section: Section) -> str:
    """Return the pictures of the first row whose clients' neurons were measured."""
    measured = [run for row in section.rows for run in row.finished if run.activations]
    if not measured:
        return ""
    drawn = neurons.draw(measured[0].activations, measured[0].examples)
    found = [(each.caption, *map("".join, pictures.pieces(each))) for each in drawn.values()]
    return "".join(
        f"<figure><figcaption>{text(caption)}</figcaption>"
        f'<div class="pictures">{keys}</div><div class="pictures">{panels}</div></figure>'
        for caption, keys, panels in found
    )


def _figure(
    index: int,
    figure: Optional[curves.Figure],
    section: Section,
    drawings: Sequence[curves.Drawing],
) -> str:
    if figure is None:
        return ""
    total = len(figure["curves"])
    shown = total if total <= MOST_SHOWN else FIRST_SHOWN
    keys = "".join(
        _key(i, curve, i < shown, section.is_mixed) for i, curve in enumerate(figure["curves"])
    )
    some = f"; {shown} of {total} curves, the buttons below show others" if shown < total else ""
    choices = "".join(
        f'<label><input type="radio" name="x-{index}" value="{name}"'
        f"{' checked' if name == 'rounds' else ''}> {title}</label>"
        for name, title in curves.AXES.items()
    )
    name = section.results.recipe
    own = [each.quantities for each in drawings if each.name == name]
    others = [each for each in drawings if each.name != name]
    first = next((each for names in own for each in names if each in figure["quantities"]), "")
    options = "".join(
        f'<option value="{each}"{" selected" if each == first else ""}>{text(title)}</option>'
        for each, title in figure["quantities"].items()
    )
    label = f"Curves of {section.title}; arrow keys read values, buttons below hide curves."
    target = "" if figure["target"] is None else f"; dashed: target {figure['target']:g} %"
    return (
        f'<figure data-figure="{index}"><figcaption>{text(section.title)}: '
        f"mean over seeds, band of one standard deviation{target}{some}</figcaption>"
        f'<div class="controls">{_drawings(figure, others)}'
        f'<label class="quantity">show <select>{options}</select></label>'
        f'<fieldset class="x"><legend>against</legend>{choices}</fieldset>{_ZOOM}</div>'
        f'<div class="plot" tabindex="0" role="img" aria-label="{text(label)}"></div>'
        f'<p class="readout" aria-live="polite"></p><div class="keys">{keys}'
        '<div class="alls"><button type="button" class="all" data-show="1">show all</button>'
        '<button type="button" class="all" data-show="">hide all</button></div></div>'
        "<noscript><p>The curves need JavaScript; the tables do not.</p></noscript></figure>"
    )


def _drawings(figure: curves.Figure, drawings: Sequence[curves.Drawing]) -> str:
    """Return the choice of the paper's figures that can be drawn from the curves that there are."""
    options = []
    for drawing in drawings:
        places = [i for i, curve in enumerate(figure["curves"]) if curve["id"] in drawing.ids]
        quantity = next((each for each in drawing.quantities if each in figure["quantities"]), "")
        if places and quantity:
            numbers = " ".join(map(str, places))
            title = text(drawing.title)
            options.append(f'<option value="{numbers}" data-quantity="{quantity}">{title}</option>')
    if not options:
        return ""
    return (
        '<label class="drawing">figure of the paper <select><option value="">–</option>'
        f"{''.join(options)}</select></label>"
    )


def _key(number: int, curve: curves.Curve, is_shown: bool, is_mixed: bool) -> str:
    mark = f" {MARK}" if is_mixed and not curve["is_real"] else ""
    seeds = "1 seed" if curve["seeds"] == 1 else f"{curve['seeds']} seeds"
    pressed = str(is_shown).lower()
    return (
        f'<button type="button" class="key" aria-pressed="{pressed}" data-curve="{number}">'
        f'<span class="swatch"></span><span class="label">{text(curve["label"])}{mark} '
        f'<small>{seeds}</small></span><output class="value"></output></button>'
    )


def _commands(section: Section) -> str:
    by_command = commands.grouped(section.rows)
    if not by_command:
        return ""
    items = []
    for command, rows in by_command.items():
        labels = "; ".join(text(row.label) for row in rows)
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
    words = [(word, text(word)) for word in command.split(" ")]
    return " ".join(
        f'<span class="flag">{shown}</span>' if word.startswith("-") else shown
        for word, shown in words
    )


def _folders(row: Row) -> str:
    parents = {os.path.dirname(run.folder) for run in row.runs}
    if len(row.runs) > 1 and len(parents) == 1:
        names = ", ".join(text(os.path.basename(run.folder)) for run in row.runs)
        return f"<code>{text(parents.pop())}</code> ({names})"
    return ", ".join(f"<code>{text(run.folder)}</code>" for run in row.runs)
