"""The first part of the page: the ledger with its dot plot, and filters by paper and verdict."""

from __future__ import annotations

import collections
from collections.abc import Mapping, Sequence
from typing import Optional

from tff_partial.report import dots, ledger
from tff_partial.report.html_tables import text
from tff_partial.report.ledger import Finding

_TONES = {ledger.HOLDS: "better", ledger.FAILS: "worse"}


def render(findings: Sequence[Finding], places: Mapping[str, str]) -> str:
    """Return the ledger.

    Args:
      findings: The claims.
      places: Recipe -> the id of its section, if the page has one.
    """
    if not findings:
        return ""
    findings = sorted(findings, key=lambda finding: ledger.VERDICTS.index(finding.verdict))
    kinds = [
        kind for kind in dots.AXES if any(each.kind == kind and each.ours for each in findings)
    ]
    axes = "".join(f"<div><small>{kind}</small>{dots.axis(kind)}</div>" for kind in kinds)
    items = "".join(_item(each, places.get(each.recipe)) for each in findings)
    return (
        '<section id="claims" class="first" aria-labelledby="claims-title">'
        f'<h2 id="claims-title">{text(ledger.counts(findings))}</h2>{_filters(findings)}'
        '<div class="legend"><p><span class="key-paper"></span> paper '
        '<span class="key-ours"></span> ours, with the 95 % interval over seeds</p>'
        f"<div>{axes}</div></div>"
        f'<ol class="ledger">{items}</ol><p class="none" hidden>No claim is left.</p></section>'
    )


def _filters(findings: Sequence[Finding]) -> str:
    """Return the choice of papers and of verdicts; without scripts all claims are shown."""
    sources = dict.fromkeys(finding.source for finding in findings)
    options = "".join(f"<option>{text(source)}</option>" for source in sources)
    numbers = collections.Counter(finding.verdict for finding in findings)
    boxes = "".join(
        f'<label><input type="checkbox" value="{verdict}"{_checked(verdict)}> {verdict} '
        f"<small>{numbers[verdict]}</small></label>"
        for verdict in ledger.VERDICTS
        if numbers[verdict]
    )
    return (
        '<form class="filters" hidden><label>paper <select>'
        f'<option value="">all</option>{options}</select></label>'
        f"<fieldset><legend>verdict</legend>{boxes}</fieldset></form>"
    )


def _checked(verdict: str) -> str:
    return "" if verdict == ledger.NOT_RUN else " checked"


def _item(finding: Finding, place: Optional[str]) -> str:
    name = text(finding.recipe)
    link = f'<a href="#{place}">{name}</a>' if place else name
    seeds = f"{finding.seeds} seeds" if finding.seeds > 1 else ""
    others = map(text, filter(None, [finding.where, finding.quantity, seeds, finding.setting]))
    facts = [link, *others]
    remark = f"<small>{text(finding.remark)}</small>" if finding.remark else ""
    figures = f"ours {ledger.ours_text(finding)}, paper {ledger.paper_text(finding)}"
    tone = _TONES.get(finding.verdict, "open")
    return (
        f'<li data-claim="{text(finding.name)}" data-verdict="{finding.verdict}" '
        f'data-paper="{text(finding.source)}">'
        f'<div class="verdict {tone}">{finding.verdict}{remark}</div>'
        f'<div class="says">{text(finding.says)}<p>{"; ".join(facts)}</p></div>'
        f'<div class="figures">{dots.svg(finding, text(figures))}'
        f"<p>{text(_shown(finding))}</p></div></li>"
    )


def _shown(finding: Finding) -> str:
    """Return the figures in words, those that there are."""
    parts = []
    if finding.ours is not None:
        parts.append(f"ours {ledger.ours_text(finding)}")
    if finding.paper is not None:
        parts.append(f"paper {ledger.paper_text(finding)}")
    return "; ".join(parts)
