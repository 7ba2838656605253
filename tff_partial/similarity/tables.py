"""Results of `python -m tff_partial.similarity`: similarity.csv, similarity.png and a table."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence

from typing_extensions import TypeAlias

from tff_partial.results import figures, metrics, text_files
from tff_partial.results.checks import Json

# Columns of metrics.csv; the first two end with the name of a block.
MAXIMUM, MEAN, CLIENTS = "svcca_max_", "svcca_mean_", "svcca_clients"
COLUMNS = ("scheme", "steps", "block", "name", "maximum", "mean", "clients")
Rows: TypeAlias = list[dict[str, Json]]
"""Rows of similarity.csv: `COLUMNS` -> value."""

_TIMES = 5  # columns of figure 1's table, at most


def read(folders: Mapping[str, str], blocks: Sequence[str], local_steps: int) -> Rows:
    """Return a row for each scheme (of `folders`, with their metrics.csv), time and block."""
    rows = []
    for scheme, folder in folders.items():
        for row in metrics.read(folder):
            if row.get(CLIENTS) is None:
                continue
            steps, clients = int(row["round"]) * local_steps, int(row[CLIENTS])
            for index, name in enumerate(blocks):
                measured = row[MAXIMUM + name], row[MEAN + name]
                values = (scheme, steps, index, name, *measured, clients)
                rows.append(dict(zip(COLUMNS, values)))
    return rows


def write_csv(path: str, rows: Rows) -> None:
    """Write similarity.csv, complete or not at all."""
    text_files.write_csv(path, COLUMNS, rows)


def read_csv(path: str) -> Rows:
    """Read what `write_csv` wrote.

    Raises:
      ResultsError: If it is something else.
    """
    kinds = dict(zip(COLUMNS, (str, int, int, str, float, float, int)))
    try:
        table = text_files.read_csv(path)
        return [{name: kind(row[name]) for name, kind in kinds.items()} for row in table]
    except (KeyError, ValueError) as error:
        raise text_files.ResultsError(f"{path} must be of an analysis. Received: {error}") from None


def panels(figure: int, rows: Rows) -> figures.Panels:
    """Return what is drawn: panel -> line -> points (local steps, maximum over pairs).

    Figure 1 is one panel with a line for each block, figure 3 a panel for each block with a line
    for each scheme.
    """
    drawn: dict[str, dict[str, figures.Points]] = {}
    for row in rows:
        name = f"{row['block']} {row['name']}"
        panel, line = ("all blocks", name) if figure == 1 else (name, row["scheme"])
        drawn.setdefault(panel, {}).setdefault(line, []).append((row["steps"], row["maximum"]))
    return drawn


def plot(path: str, title: str, drawn: figures.Panels) -> None:
    """Write the panels as PNG, complete or not at all."""
    from matplotlib import colormaps

    figure = figures.draw(drawn, title, "local steps", columns=min(4, len(drawn)))
    for axes in figure.axes:
        axes.set(title=axes.get_ylabel(), ylabel="maximum SVCCA", ylim=(0, 1.05))
        if len(drawn) == 1:  # lines are blocks: dark at the input, light at the output
            figure.set_size_inches(7.5, 4.5)
            by_depth = colormaps["viridis"].resampled(len(axes.lines) + 1)
            for i, line in enumerate(axes.lines):
                line.set_color(by_depth(i))
            axes.legend(fontsize="small")
    figures.save(figure, path)


def table(figure: int, rows: Rows) -> str:
    """Return the maxima as Markdown, a row a block: at some times for figure 1, else at the end."""
    times = sorted({row["steps"] for row in rows})
    if figure == 1:
        # Evenly spaced, the last one always among them.
        shown = times[:: -max(1, math.ceil(len(times) / _TIMES))][::-1]
        keys = {f"{steps} steps": ("none", steps) for steps in shown}
    else:
        schemes = dict.fromkeys(row["scheme"] for row in rows)
        keys = {scheme: (scheme, times[-1]) for scheme in schemes}
    values = {(r["scheme"], r["steps"], r["block"]): r["maximum"] for r in rows}
    blocks = {row["block"]: row["name"] for row in rows}
    lines = [["block", *keys], ["---"] * (len(keys) + 1)]
    for block, name in blocks.items():
        cells = [f"{values[(*key, block)]:.3f}" for key in keys.values()]
        lines.append([f"{block} {name}", *cells])
    return "\n".join(f"| {' | '.join(line)} |" for line in lines)
