"""Small pictures in SVG: panels of lines or of points beside each other.

They have no styles of their own but classes (`s0`, `s1`, ... for the colours), so that a page with
a strict content security policy can hold them; `standalone` is the same as a file.
"""

from __future__ import annotations

import html
import math
from collections.abc import Iterable, Mapping, Sequence
from typing import NamedTuple

from typing_extensions import TypeAlias

Points: TypeAlias = list[tuple[float, float]]

WIDTH, HEIGHT = 250, 170  # of a panel
_LEFT, _RIGHT, _TOP, _BOTTOM = 38, 8, 22, 30
_LEGEND = 22
COLOURS = ("#1f5fbf", "#c2410c", "#15803d", "#7e22ce", "#be1872", "#0e7490", "#854d0e", "#4b5563")


class Panel(NamedTuple):
    """A panel: label of a line -> its points."""

    title: str
    x_label: str
    lines: Mapping[str, Points]
    is_scatter: bool = False


class Picture(NamedTuple):
    """Panels with what they show, in words."""

    caption: str
    panels: Sequence[Panel]


def svg(picture: Picture, columns: int = 4) -> str:
    """Return a picture as an element of a page."""
    labels = list(dict.fromkeys(label for panel in picture.panels for label in panel.lines))
    columns = min(columns, len(picture.panels))
    rows = math.ceil(len(picture.panels) / columns)
    needed = max(columns, math.ceil(len(labels) * _step(labels) / WIDTH))
    width, height = needed * WIDTH, rows * HEIGHT + _LEGEND
    parts = [_legend(labels)]
    for i, panel in enumerate(picture.panels):
        at = f"translate({i % columns * WIDTH} {i // columns * HEIGHT + _LEGEND})"
        parts.append(f'<g transform="{at}">{_panel(panel, labels)}</g>')
    scale = 2 if len(picture.panels) == 1 else 1
    size = f'viewBox="0 0 {width} {height}" width="{scale * width}" height="{scale * height}"'
    label = html.escape(picture.caption, quote=True)
    return f'<svg class="picture" role="img" aria-label="{label}" {size}>{"".join(parts)}</svg>'


def standalone(picture: Picture) -> str:
    """Return a picture as a file of its own."""
    colours = "".join(
        f".s{i}{{stroke:{colour}}}.p{i}{{fill:{colour}}}" for i, colour in enumerate(COLOURS)
    )
    style = (
        "<style>text{font:11px sans-serif;fill:#333}.line{fill:none;stroke-width:1.5}"
        f".frame{{fill:none;stroke:#bbb}}.ground{{fill:#fff}}{colours}</style>"
    )
    content = svg(picture).replace("<svg ", '<svg xmlns="http://www.w3.org/2000/svg" ', 1)
    head, body = content.split(">", 1)
    ground = '<rect class="ground" width="100%" height="100%"/>'
    return f"{head}>{style}{ground}{body}\n"


def _step(labels: Sequence[str]) -> int:
    """Return the room of a label in the legend."""
    return 34 + 7 * max(map(len, labels), default=0)


def _legend(labels: Sequence[str]) -> str:
    return "".join(
        f'<line class="line s{i % len(COLOURS)}" x1="{_LEFT + i * _step(labels)}" '
        f'x2="{_LEFT + i * _step(labels) + 18}" y1="12" y2="12"/>'
        f'<text x="{_LEFT + i * _step(labels) + 23}" y="16">{html.escape(label)}</text>'
        for i, label in enumerate(labels)
    )


def _panel(panel: Panel, labels: Sequence[str]) -> str:
    points = [point for line in panel.lines.values() for point in line]
    x_low, x_high = _ends(x for x, _ in points)
    y_low, y_high = _ends(y for _, y in points)
    right, bottom = WIDTH - _RIGHT, HEIGHT - _BOTTOM

    def place(x: float, y: float) -> tuple[str, str]:
        across = _LEFT + (x - x_low) / (x_high - x_low) * (right - _LEFT)
        down = bottom - (y - y_low) / (y_high - y_low) * (bottom - _TOP)
        return f"{across:.1f}", f"{down:.1f}"

    frame = f'x="{_LEFT}" y="{_TOP}" width="{right - _LEFT}" height="{bottom - _TOP}"'
    parts = [
        f'<rect class="frame" {frame}/>',
        f'<text x="{_LEFT}" y="{_TOP - 6}">{html.escape(panel.title)}</text>',
        f'<text x="{_LEFT - 4}" y="{_TOP + 9}" text-anchor="end">{y_high:.3g}</text>',
        f'<text x="{_LEFT - 4}" y="{bottom}" text-anchor="end">{y_low:.3g}</text>',
        f'<text x="{_LEFT}" y="{bottom + 14}">{x_low:.3g}</text>',
        f'<text x="{right}" y="{bottom + 14}" text-anchor="end">{x_high:.3g}</text>',
        f'<text x="{(_LEFT + right) / 2}" y="{bottom + 14}" text-anchor="middle">'
        f"{html.escape(panel.x_label)}</text>",
    ]
    for label, line in panel.lines.items():
        colour = labels.index(label) % len(COLOURS)
        places = [place(x, y) for x, y in line]
        if panel.is_scatter:
            parts += [f'<circle class="p{colour}" cx="{x}" cy="{y}" r="2"/>' for x, y in places]
        else:
            joined = " ".join(f"{x},{y}" for x, y in places)
            parts.append(f'<polyline class="line s{colour}" points="{joined}"/>')
    return "".join(parts)


def _ends(values: Iterable[float]) -> tuple[float, float]:
    """Return the ends of an axis."""
    known = list(values) or [0.0]
    low, high = min(known), max(known)
    return (low, high) if high > low else (low - 0.5, high + 0.5)
