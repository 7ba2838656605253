"""Curves of several runs beside each other, as a picture.

    python -m tff_partial.plots results/a results/b --columns=test_accuracy,loss --output=x.png

A panel for each column of metrics.csv, a line for each run, against local steps where all runs have
them, else against rounds.
"""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Sequence
from typing import Any, NamedTuple

from tff_partial.results import folder as results


class Run(NamedTuple):
    """What is drawn of a run."""

    label: str
    settings: dict[str, Any]
    rows: list[dict[str, Any]]


def read(folder: str) -> Run:
    """A run's folder.

    Raises:
      ValueError: If it holds no run.
    """
    rows = results.read_metrics(folder)
    try:
        settings = results.read_json(os.path.join(folder, "config.json"))["settings"]
        is_run = isinstance(settings["data"], str)
        is_run &= isinstance(settings.get("local_steps"), (int, float, type(None)))
    except (OSError, ValueError, KeyError, TypeError, AttributeError):
        is_run = False
    if not is_run or not rows:
        raise ValueError(f"a run's folder must hold config.json and metrics. Received: {folder}")
    return Run(os.path.basename(os.path.normpath(folder)), settings, rows)


def points(run: Run, column: str, by_steps: bool) -> list[tuple[float, float]]:
    """(Local steps or rounds, value) where the column has one."""
    factor = run.settings["local_steps"] if by_steps else 1
    return [(r["round"] * factor, r[column]) for r in run.rows if r.get(column) is not None]


def plot(runs: Sequence[Run], columns: Sequence[str], path: str) -> None:
    """Writes the picture.

    Raises:
      ValueError: If no run has one of the columns.
    """
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    results.check_regular(path)
    by_steps = all(run.settings.get("local_steps") for run in runs)
    figure = Figure(figsize=(4.5 * len(columns), 3.8), layout="constrained")
    FigureCanvasAgg(figure)
    all_axes: Any = figure.subplots(1, len(columns), squeeze=False)[0]
    for axes, column in zip(all_axes, columns):
        lines = {run.label: points(run, column, by_steps) for run in runs}
        if not any(lines.values()):
            raise ValueError(f"columns must be of metrics.csv. Received: {column!r}")
        for label, line in lines.items():
            axes.plot(*zip(*line), label=label) if line else axes.plot([], [], label=label)
        axes.set_xlabel("local steps" if by_steps else "round")
        axes.set_ylabel(column.replace("_", " "))
        axes.grid(alpha=0.3)
    all_axes[0].legend(fontsize="small")
    figure.suptitle("; ".join(sorted({run.settings["data"] for run in runs})), fontsize="small")
    temporary = f"{path}_temp.png"
    figure.savefig(temporary, dpi=110)
    os.replace(temporary, path)
