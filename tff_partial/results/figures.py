"""Curves of runs as pictures: of one run while it ends, or of several beside each other."""

from __future__ import annotations

import io
import math
import os
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, NamedTuple, Optional

from typing_extensions import TypeAlias

from tff_partial.results import metrics
from tff_partial.results.folder import CONFIG
from tff_partial.results.schema import Fields, MetricsRow
from tff_partial.results.text_files import check_regular, read_json
from tff_partial.system import files

if TYPE_CHECKING:
    from matplotlib.figure import Figure

Points: TypeAlias = list[tuple[float, float]]
Panels: TypeAlias = Mapping[str, Mapping[str, Points]]
"""Panel -> label of a line -> its points."""


def draw(panels: Panels, title: str, x_label: str, columns: Optional[int] = None) -> Figure:
    """Draw the lines of each panel, a label having the same colour in all of them.

    The name of a panel is that of its y-axis; `columns` are beside each other, all by default.
    """
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    columns = columns or len(panels)
    rows = math.ceil(len(panels) / columns)
    labels = dict.fromkeys(label for lines in panels.values() for label in lines)
    colors = {label: f"C{i}" for i, label in enumerate(labels)}
    figure = Figure(figsize=(4.5 * columns, 3.6 * rows), layout="constrained")
    FigureCanvasAgg(figure)
    for i, (name, lines) in enumerate(panels.items(), start=1):
        axes = figure.add_subplot(rows, columns, i, xlabel=x_label, ylabel=name)
        for label, points in lines.items():
            x, y = zip(*points) if points else ((), ())
            axes.plot(x, y, label=label, color=colors[label], marker="o" if len(x) < 2 else None)
        axes.grid(alpha=0.3)
        if any(lines.values()):  # a run may diverge before it has anything to show
            axes.legend(fontsize="small")
    figure.suptitle(title, fontsize="medium")
    return figure


def save(figure: Figure, path: str) -> None:
    """Write a figure as PNG, complete or not at all.

    Raises:
      ResultsError: If the path is something else than a regular file.
    """
    check_regular(path)
    picture = io.BytesIO()
    figure.savefig(picture, dpi=110, format="png")
    files.write(path, picture.getvalue())


def curves(rows: Sequence[MetricsRow], tiers: Sequence[str] = ()) -> Panels:
    """Return the panels of one run: loss, accuracy and, if there are tiers, accuracy by tier.

    Tests on a sample of the test data are a line of their own. A tier has no point in rounds in
    which none of its clients took part, and nothing has one where it is not finite.
    """

    def points(column: str, clients: str = "") -> Points:
        taken = [r for r in rows if r.get(clients, 1) and r.get(column) is not None]
        return [(r["round"], r[column]) for r in taken if math.isfinite(r[column])]

    examples = metrics.sample_size(rows)
    kinds = {"train": "train", "test": "test"}
    if examples is not None:
        kinds[metrics.SAMPLED] = f"test on {examples:,} examples"
    panels: dict[str, dict[str, Points]] = {
        name: {label: points(f"{kind}_{name}") for kind, label in kinds.items()}
        for name in ("loss", "accuracy")
    }
    by_tier = {name: points(f"train_accuracy_{name}", f"clients_{name}") for name in tiers}
    by_tier = {name: line for name, line in by_tier.items() if line}
    return {**panels, **({"training accuracy by tier": by_tier} if by_tier else {})}


def plot_curves(
    path: str, title: str, rows: Sequence[MetricsRow], tiers: Sequence[str] = ()
) -> None:
    """Write the curves of one run as PNG."""
    figure = draw(curves(rows, tiers), title, "round")
    for axes in figure.axes:
        axes.locator_params("x", integer=True)
    save(figure, path)


class Run(NamedTuple):
    """What is drawn of a run."""

    folder: str
    settings: Fields
    rows: list[MetricsRow]


def read(folder: str) -> Run:
    """Read a run's folder.

    Raises:
      ValueError: If it holds no run.
    """
    rows = metrics.read(folder)
    try:
        settings = read_json(os.path.join(folder, CONFIG))["settings"]
        is_run = isinstance(settings["data"], str)
        is_run &= isinstance(settings.get("local_steps"), (int, float, type(None)))
    except (OSError, ValueError, KeyError, TypeError, AttributeError):
        is_run = False
    if not is_run or not rows:
        raise ValueError(f"a run's folder must hold config.json and metrics. Received: {folder}")
    return Run(os.path.normpath(folder), settings, rows)


def points(run: Run, column: str, by_steps: bool) -> Points:
    """Return (local steps or rounds, value) for the rounds with a value."""
    factor = run.settings["local_steps"] if by_steps else 1
    return [(r["round"] * factor, r[column]) for r in run.rows if r.get(column) is not None]


def plot(runs: Sequence[Run], columns: Sequence[str], path: str) -> None:
    """Write a PNG with a panel for each column of metrics.csv and a line for each run.

    The x-axis is local steps if all runs have them, else rounds. A run is named by its folder, by
    the whole path where names are the same.

    Raises:
      ValueError: If no run has one of the columns.
    """
    by_steps = all(run.settings.get("local_steps") for run in runs)
    names = {run.folder: os.path.basename(run.folder) for run in runs}
    labels = names if len({*names.values()}) == len(names) else {name: name for name in names}
    panels = {c: {labels[r.folder]: points(r, c, by_steps) for r in runs} for c in columns}
    for column, lines in panels.items():
        if not any(lines.values()):
            raise ValueError(f"columns must be of metrics.csv. Received: {column!r}")
    panels = {column.replace("_", " "): lines for column, lines in panels.items()}
    data = "; ".join(sorted({run.settings["data"] for run in runs}))
    save(draw(panels, data, "local steps" if by_steps else "round"), path)
