"""A dot plot in SVG: the paper's figure, and ours with its interval, one claim a line.

Differences have an axis that is linear around 0 and logarithmic further out, so that half a point
and forty points are both seen; ratios are logarithmic.
"""

from __future__ import annotations

import math

from tff_partial.report.cells import MINUS
from tff_partial.report.ledger import Finding

WIDTH, HEIGHT = 220, 30
_EDGE, _MIDDLE = 10, 15
# Kind of figure -> the ends of its axis and what is marked on it.
AXES = {
    "difference": (-60.0, 60.0, (-30.0, -3.0, 0.0, 3.0, 30.0)),
    "ratio": (0.2, 2.0, (0.25, 0.5, 1.0, 2.0)),
    "value": (0.0, 100.0, (0.0, 50.0)),
}


def place(kind: str, value: float) -> float:
    """Return the x of a value; those beyond the axis are at its end."""
    low, high, _ = AXES[kind]
    ends = [_transformed(kind, end) for end in (low, high)]
    share = (_transformed(kind, min(max(value, low), high)) - ends[0]) / (ends[1] - ends[0])
    return round(_EDGE + share * (WIDTH - 2 * _EDGE), 1)


def _transformed(kind: str, value: float) -> float:
    if kind == "difference":
        return math.copysign(math.log10(1 + abs(value)), value)
    return math.log10(value) if kind == "ratio" else value


def svg(finding: Finding, label: str) -> str:
    """Return the line of a claim; empty if there is nothing to draw.

    Args:
      finding: The claim.
      label: What the picture shows, in words, escaped.
    """
    if finding.kind not in AXES or (finding.ours is None and finding.paper is None):
        return ""
    zero = place(finding.kind, {"ratio": 1.0}.get(finding.kind, 0.0))
    parts = [
        _line("axis", _EDGE, WIDTH - _EDGE),
        f'<line class="axis" x1="{zero}" x2="{zero}" y1="4" y2="{HEIGHT - 4}"/>',
    ]
    if finding.ours is not None:
        mean, low, high = finding.ours
        if low is not None and high is not None:
            parts.append(_line("interval", place(finding.kind, low), place(finding.kind, high)))
        parts.append(_circle("ours", place(finding.kind, mean)))
    if finding.paper is not None:
        parts.append(_circle("paper", place(finding.kind, finding.paper)))
    return _picture("dots", label, HEIGHT, "".join(parts))


def _line(name: str, start: float, end: float) -> str:
    return f'<line class="{name}" x1="{start}" x2="{end}" y1="{_MIDDLE}" y2="{_MIDDLE}"/>'


def _circle(name: str, at: float) -> str:
    return f'<circle class="{name}" cx="{at}" cy="{_MIDDLE}" r="5"/>'


def axis(kind: str) -> str:
    """Return the numbers of an axis."""
    texts = {tick: f"{tick:g}".replace("-", MINUS) for tick in AXES[kind][2]}
    ticks = "".join(
        f'<text x="{place(kind, tick)}" y="12" text-anchor="middle">{text}</text>'
        for tick, text in texts.items()
    )
    return _picture("dots scale", f"axis of a {kind}", 16, ticks)


def _picture(classes: str, label: str, height: int, content: str) -> str:
    size = f'viewBox="0 0 {WIDTH} {height}" width="{WIDTH}" height="{height}"'
    return f'<svg class="{classes}" role="img" aria-label="{label}" {size}>{content}</svg>'
