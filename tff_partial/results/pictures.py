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

WIDTH, HEIGHT = 226, 160  # of a panel
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
    """Return a picture as one element."""
    labels, factor = _labels(picture), _factor(picture)
    columns = min(columns, len(picture.panels))
    rows = math.ceil(len(picture.panels) / columns)
    size = _size(factor)
    width = max(columns * size[0], len(labels) * _step(labels))
    parts = [
        f'<g transform="translate({i * _step(labels)} 0)">{_key(label, i)}</g>'
        for i, label in enumerate(labels)
    ]
    for i, panel in enumerate(picture.panels):
        at = f"translate({i % columns * size[0]} {i // columns * size[1] + _LEGEND})"
        parts.append(f'<g transform="{at}">{_panel(panel, labels, factor)}</g>')
    return _element(picture.caption, width, rows * size[1] + _LEGEND, "".join(parts))


def pieces(picture: Picture) -> tuple[list[str], list[str]]:
    """Return the legend's entries and the panels, each an element: a page may break their line."""
    labels, factor = _labels(picture), _factor(picture)
    width, height = _size(factor)
    keys = [_element(x, _step(labels), _LEGEND, _key(x, i)) for i, x in enumerate(labels)]
    panels = [
        _element(panel.title or picture.caption, width, height, _panel(panel, labels, factor))
        for panel in picture.panels
    ]
    return keys, panels


def standalone(picture: Picture) -> str:
    """Return a picture as a file of its own."""
    colours = "".join(
        f".s{i}{{stroke:{colour}}}.p{i}{{fill:{colour}}}" for i, colour in enumerate(COLOURS)
    )
    style = (
        "<style>text{font:12px sans-serif;fill:#333}.line{fill:none;stroke-width:1.5}"
        f".frame{{fill:none;stroke:#bbb}}.ground{{fill:#fff}}{colours}</style>"
    )
    content = svg(picture).replace("<svg ", '<svg xmlns="http://www.w3.org/2000/svg" ', 1)
    head, body = content.split(">", 1)
    ground = '<rect class="ground" width="100%" height="100%"/>'
    return f"{head}>{style}{ground}{body}\n"


def _labels(picture: Picture) -> list[str]:
    return list(dict.fromkeys(label for panel in picture.panels for label in panel.lines))


def _factor(picture: Picture) -> float:
    """Return how much larger than usual panels are: a single one has room."""
    return 1.5 if len(picture.panels) == 1 else 1.0


def _size(factor: float) -> tuple[int, int]:
    return round(factor * WIDTH), round(factor * HEIGHT)


def _element(label: str, width: int, height: int, content: str) -> str:
    size = f'viewBox="0 0 {width} {height}" width="{width}" height="{height}"'
    words = html.escape(label, quote=True)
    return f'<svg class="picture" role="img" aria-label="{words}" {size}>{content}</svg>'


def _step(labels: Sequence[str]) -> int:
    """Return the room of a label in the legend."""
    return 44 + 7 * max(map(len, labels), default=0)


def _key(label: str, number: int) -> str:
    return (
        f'<line class="line s{number % len(COLOURS)}" x1="8" x2="26" y1="12" y2="12"/>'
        f'<text x="31" y="16">{html.escape(label)}</text>'
    )


def _panel(panel: Panel, labels: Sequence[str], factor: float) -> str:
    points = [point for line in panel.lines.values() for point in line]
    x_low, x_high = _ends(x for x, _ in points)
    y_low, y_high = _ends(y for _, y in points)
    width, height = _size(factor)
    right, bottom = width - _RIGHT, height - _BOTTOM

    def place(x: float, y: float) -> tuple[str, str]:
        across = _LEFT + (x - x_low) / (x_high - x_low) * (right - _LEFT)
        down = bottom - (y - y_low) / (y_high - y_low) * (bottom - _TOP)
        return f"{across:.1f}", f"{down:.1f}"

    parts = [_frame(panel, (x_low, x_high), (y_low, y_high), right, bottom)]
    for label, line in panel.lines.items():
        colour = labels.index(label) % len(COLOURS)
        places = [place(x, y) for x, y in line]
        if panel.is_scatter:
            parts += [f'<circle class="p{colour}" cx="{x}" cy="{y}" r="2"/>' for x, y in places]
        else:
            joined = " ".join(f"{x},{y}" for x, y in places)
            parts.append(f'<polyline class="line s{colour}" points="{joined}"/>')
    return "".join(parts)


def _frame(
    panel: Panel, xs: tuple[float, float], ys: tuple[float, float], right: int, bottom: int
) -> str:
    """Return a panel's box, its title and the numbers at the ends of its axes."""
    box = f'x="{_LEFT}" y="{_TOP}" width="{right - _LEFT}" height="{bottom - _TOP}"'
    texts = [
        ("start", _LEFT, _TOP - 6, panel.title),
        ("end", _LEFT - 4, _TOP + 9, f"{ys[1]:.3g}"),
        ("end", _LEFT - 4, bottom, f"{ys[0]:.3g}"),
        ("start", _LEFT, bottom + 14, f"{xs[0]:.3g}"),
        ("end", right, bottom + 14, f"{xs[1]:.3g}"),
        ("middle", (_LEFT + right) // 2, bottom + 14, panel.x_label),
    ]
    shown = "".join(
        f'<text x="{x}" y="{y}" text-anchor="{anchor}">{html.escape(words)}</text>'
        for anchor, x, y, words in texts
    )
    return f'<rect class="frame" {box}/>{shown}'


def _ends(values: Iterable[float]) -> tuple[float, float]:
    """Return the ends of an axis."""
    known = list(values) or [0.0]
    low, high = min(known), max(known)
    return (low, high) if high > low else (low - 0.5, high + 0.5)
