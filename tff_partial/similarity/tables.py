"""What `python -m tff_partial.similarity` leaves: similarity.csv, similarity.png, a table."""

from __future__ import annotations

import csv
import math
import os
from collections.abc import Mapping, Sequence
from typing import Any

from tff_partial.results import folder as results
from tff_partial.similarity import comparison

COLUMNS = ("scheme", "steps", "block", "name", "maximum", "mean", "clients")
Rows = list[dict[str, Any]]
Panels = dict[str, dict[str, list[tuple[int, float]]]]
_TIMES = 5  # columns of figure 1's table, at the most


def read(folders: Mapping[str, str], blocks: Sequence[str], local_steps: int) -> Rows:
    """The measurements of all schemes: a row for each scheme, time and block.

    Args:
      folders: Scheme -> folder of its metrics.csv.
      blocks: Names of the blocks, in order.
      local_steps: Of a round.
    """
    found = []
    for scheme, folder in folders.items():
        for row in results.read_metrics(folder):
            if row.get(comparison.CLIENTS) is None:
                continue
            for index, name in enumerate(blocks):
                values = (
                    scheme,
                    int(row["round"]) * local_steps,
                    index,
                    name,
                    row[comparison.MAXIMUM + name],
                    row[comparison.MEAN + name],
                    int(row[comparison.CLIENTS]),
                )
                found.append(dict(zip(COLUMNS, values)))
    return found


def write_csv(path: str, rows: Rows) -> None:
    """Writes beside the file and renames."""
    temporary = f"{path}_temp"
    with open(temporary, "w", newline="") as file:
        writer = csv.DictWriter(file, COLUMNS, lineterminator="\n")
        writer.writeheader()
        writer.writerows(rows)
    os.replace(temporary, path)


def read_csv(path: str) -> Rows:
    """What `write_csv` wrote."""
    kinds = dict(zip(COLUMNS, (str, int, int, str, float, float, int)))
    try:
        return [{k: kind(row[k]) for k, kind in kinds.items()} for row in results.read_table(path)]
    except (KeyError, ValueError) as error:
        raise results.ResultsError(f"{path} must be of an analysis. Received: {error}") from None


def panels(figure: int, rows: Rows) -> Panels:
    """What is drawn: panel -> line -> points (local steps, maximum over pairs).

    Figure 1 is one panel with a line for each block, figure 3 a panel for each block with a line
    for each scheme.
    """
    found: Panels = {}
    for row in rows:
        name = f"{row['block']} {row['name']}"
        panel, line = ("all blocks", name) if figure == 1 else (name, row["scheme"])
        found.setdefault(panel, {}).setdefault(line, []).append((row["steps"], row["maximum"]))
    return found


def plot(path: str, title: str, drawn: Panels) -> None:
    """The panels as a PNG, written beside and renamed."""
    from matplotlib import colormaps
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    columns = min(4, len(drawn))
    rows = math.ceil(len(drawn) / columns)
    size = (7.5, 4.5) if len(drawn) == 1 else (3.4 * columns, 2.8 * rows)
    figure = Figure(figsize=size, layout="constrained")
    FigureCanvasAgg(figure)
    grid: Any = figure.subplots(rows, columns, squeeze=False, sharey=True)
    for axes, (name, lines) in zip(grid.flat, drawn.items()):
        # From the input (dark) to the output (light) where lines are blocks.
        by_depth = colormaps["viridis"].resampled(len(lines) + 1)
        for i, (label, points) in enumerate(lines.items()):
            color = by_depth(i) if len(drawn) == 1 else f"C{i}"
            axes.plot(*zip(*points), label=label, color=color, marker=".")
        axes.set(title=name, xlabel="local steps", ylabel="maximum SVCCA", ylim=(0, 1.05))
        axes.label_outer()
        axes.grid(alpha=0.3)
    for axes in grid.flat[len(drawn) :]:
        axes.set_axis_off()
    grid.flat[0].legend(fontsize="small")
    figure.suptitle(title)
    temporary = f"{path}_temp.png"
    figure.savefig(temporary, dpi=110)
    os.replace(temporary, path)


def table(figure: int, rows: Rows) -> str:
    """The maxima in Markdown, a row a block: figure 1 at some times, figure 3 at the last one."""
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
