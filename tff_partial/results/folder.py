"""What a run leaves in its folder beside metrics: config.json, summary.json, curves.png, weights.

The configuration has three parts: `settings` decide the result and must agree when a run is
continued; `execution` (where and how it runs) may change; `versions` say what it ran with.
`execution.data_is_real` says whether the data are the set itself, which the text of `settings.data`
only describes; it is not among the settings, so that runs from before it was written go on.
"""

from __future__ import annotations

import contextlib
import csv
import errno
import io
import json
import math
import os
import platform
import statistics
import subprocess
from collections.abc import Mapping, Sequence
from importlib import metadata
from typing import Any, Optional

import numpy as np

from tff_partial import capacities
from tff_partial.system import files
from tff_partial.system import folder_lock
from tff_partial.results import statistics as run_statistics

VERSIONED = ("tensorflow-federated", "tensorflow", "keras", "numpy", "jax", "jaxlib")


# What a run leaves that was killed before its config.json was there.
_BEGINNINGS = {folder_lock.NAME, "config.json" + files.TEMPORARY}
_DEEPEST, _LARGEST = 20, 2**63


class ResultsError(ValueError):
    """A results folder that cannot be used."""


def prepare_folder(
    path: str, settings: Mapping[str, Any], execution: Mapping[str, Any]
) -> folder_lock.FolderLock:
    """Creates the folder and its config.json, or checks that it belongs to the same run.

    Returns:
      The lock on the folder, to be closed when the run ends.

    Raises:
      ResultsError: If it cannot be written, or holds a run with other settings.
      FolderInUseError: If another run uses it.
    """
    _check_folder(path, settings)
    config = {"settings": settings, "execution": execution, "versions": versions()}
    try:
        os.makedirs(path, exist_ok=True)
        lock = folder_lock.FolderLock(path)
        try:
            _check_folder(path, settings)  # another run may have begun meanwhile
            write_json(os.path.join(path, "config.json"), config)
            files.sync(path)
            with contextlib.suppress(OSError):  # it may be a folder that can only be entered
                files.sync(os.path.dirname(os.path.abspath(path)))
        except BaseException:
            lock.close()
            raise
        return lock
    except OSError as error:
        if error.errno in (errno.ENOSPC, errno.EDQUOT):
            raise  # a fault, not a wrong name
        raise ResultsError(
            f"output_dir must be a folder that can be written. Received: {error}"
        ) from error


def _check_folder(path: str, settings: Mapping[str, Any]) -> None:
    """Raises a ResultsError unless the folder is new or belongs to the same run."""
    previous = _read_config(path)
    if previous is not None:
        differing = _differences(previous.get("settings", {}), settings)
        if differing:
            raise ResultsError(
                f"output_dir must be new or hold a run with the same settings. Received: {path} "
                f"with {'; '.join(differing)}"
            )
    elif os.path.isdir(path) and set(os.listdir(path)) - _BEGINNINGS:
        raise ResultsError(
            f"output_dir must be new, empty or a run's own folder. Received: {path}, which holds "
            "other files and no config.json"
        )


def _read_config(path: str) -> Optional[dict[str, Any]]:
    try:
        found = read_json(os.path.join(path, "config.json"))
    except FileNotFoundError:
        return None
    except ResultsError as error:
        raise ResultsError(f"config.json must be readable. Received: {error}") from error
    if not isinstance(found.get("settings", {}), dict):
        raise ResultsError(f"config.json must have settings. Received: {path}")
    return found


def _differences(old: Mapping[str, Any], new: Mapping[str, Any]) -> list[str]:
    new = json.loads(json.dumps(new))
    names = sorted({*old, *new})
    return [
        f"{name}={old.get(name)!r} there, {new.get(name)!r} now"
        for name in names
        if old.get(name) != new.get(name)
    ]


def versions() -> dict[str, str]:
    """Versions of what a result depends on, and the revision of this project."""
    found = {name: metadata.version(name) for name in VERSIONED}
    return {"python": platform.python_version(), "revision": _revision(), **found}


def _revision() -> str:
    folder = os.path.dirname(os.path.abspath(__file__))
    command = ["git", "-C", folder, "describe", "--always", "--dirty", "--abbrev=12"]
    try:
        return subprocess.run(
            command, capture_output=True, text=True, check=True, timeout=10
        ).stdout.strip()
    except (OSError, subprocess.SubprocessError):
        return "unknown"


def check_regular(path: str) -> None:
    """Raises a `ResultsError` if something is there that is no file to read or to replace.

    A pipe would be waited for, for ever; a device such as /dev/null would become a file.
    """
    if os.path.lexists(path) and not os.path.isfile(path):
        raise ResultsError(f"a file must be a regular one. Received: {path}")


def read_json(path: str) -> dict[str, Any]:
    """An object from a file that somebody may have damaged.

    Raises:
      FileNotFoundError: If there is none.
      ResultsError: If it cannot be read, is no object, or holds what cannot be shown: texts that
        are no Unicode, numbers too large for a float, lists within lists without end.
    """
    check_regular(path)
    try:
        with open(path, encoding="utf-8") as file:
            found = json.load(file)
        _check_plain(found)
    except (FileNotFoundError, NotADirectoryError) as error:
        raise FileNotFoundError(str(error)) from None
    except (OSError, ValueError, RecursionError) as error:
        raise ResultsError(f"a file must hold JSON. Received: {path}: {error}") from None
    if not isinstance(found, dict):
        raise ResultsError(f"a file must hold a JSON object. Received: {path}")
    return found


def _check_plain(value: Any, depth: int = 0) -> None:
    if depth > _DEEPEST:
        raise ValueError(f"lists or objects within more than {_DEEPEST} others")
    if isinstance(value, str):
        value.encode()  # a lone surrogate is a ValueError
    elif isinstance(value, int) and abs(value) > _LARGEST:
        raise ValueError(f"a number of {len(str(value))} digits")
    elif isinstance(value, (list, dict)):
        for item in value if isinstance(value, list) else (*value, *value.values()):
            _check_plain(item, depth + 1)


def write_text(path: str, text: str) -> None:
    """Writes beside the file and renames, so that a reader never sees half of it.

    Raises:
      ResultsError: If there is something else than a regular file.
    """
    check_regular(path)
    files.write(path, text.encode())


def write_json(path: str, value: Any) -> None:
    """The value as JSON, complete or not at all."""
    write_text(path, json.dumps(value, indent=2) + "\n")


def read_metrics(path: str) -> list[dict[str, Any]]:
    """The rows of a run's metrics.csv: floats, None where a cell is empty; none without a file.

    Raises:
      ResultsError: If it is no table of numbers with a round in every row.
    """
    try:
        rows = read_table(os.path.join(path, "metrics.csv"))
        found = [{k: float(v) if v else None for k, v in row.items()} for row in rows]
    except FileNotFoundError:
        return []
    except ValueError as error:
        raise ResultsError(f"metrics.csv must hold numbers. Received: {path}: {error}") from None
    for row in found:
        number = row.get("round")
        if number is None or not 0 <= number <= _LARGEST:
            raise ResultsError(f"metrics.csv must have rounds. Received: {path}, round={number}")
    return found


def read_table(path: str) -> list[dict[str, str]]:
    """The rows of a CSV, cells as texts; empty where a row is too short.

    Raises:
      FileNotFoundError: If there is none.
      ResultsError: If it cannot be read, or a row is longer than the head.
    """
    check_regular(path)
    try:
        with open(path, encoding="utf-8", newline="") as file:
            rows = list(csv.DictReader(file, restval=""))
    except FileNotFoundError:
        raise
    except (OSError, UnicodeDecodeError, csv.Error) as error:
        raise ResultsError(f"{path} must be a table. Received: {error}") from None
    if any(None in row for row in rows):
        raise ResultsError(f"{path} must have no row longer than its head. Received: one")
    return rows


def summarize(
    settings: Mapping[str, Any],
    data: str,
    rows: Sequence[Mapping[str, Any]],
    diverged_at_round: Optional[int] = None,
) -> dict[str, Any]:
    """The summary of a run from its metrics, and the round in which it diverged if it did."""
    accuracies = run_statistics.accuracies(rows)
    target = settings.get("target_accuracy")
    return {
        "task": settings["task"],
        "algo": settings["algo"],
        "data": data,
        "rounds": len(rows),
        "average_capacity": settings.get("average_capacity"),
        **_of_tiers(settings, rows),
        "final_test_accuracy": accuracies[-1] if accuracies else None,
        "best_test_accuracy": max(accuracies, default=None),
        "target_accuracy": target,
        "rounds_to_target": run_statistics.rounds_to(rows, target),
        "seconds_per_round_median": (
            statistics.median(r["seconds"] for r in rows) if rows else None
        ),
        **({"diverged_at_round": diverged_at_round} if diverged_at_round else {}),
    }


def diverged_at(summary: Mapping[str, Any]) -> Optional[int]:
    """The round in which a run diverged, from its summary.json; None if it did not."""
    found = summary.get("diverged_at_round")
    return found if isinstance(found, int) and found > 0 else None


def _of_tiers(settings: Mapping[str, Any], rows: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    """The tier mix, and each tier's training accuracy in the last five rounds it took part in."""
    kind = "capacities" if settings.get("capacities") else "tiers"
    found: dict[str, Any] = {kind: settings[kind]} if settings.get(kind) else {}
    for name in tier_names(settings):
        column = f"train_accuracy_{name}"
        taken = [r for r in rows if r.get(f"clients_{name}")]
        values = [r[column] for r in taken if r.get(column) is not None]
        found[f"train_accuracy_{name}"] = statistics.mean(values[-5:]) if values else None
    return found


def tier_names(settings: Mapping[str, Any]) -> list[str]:
    """Names of a run's tiers, or the rates that its clients draw."""
    if settings.get("capacities"):
        return [tier.name for tier in capacities.tiers_of(settings["capacities"])]
    return [tier.split(":")[0] for tier in settings.get("tiers", "").split(",") if tier]


def format_table(values: Mapping[str, Any]) -> str:
    """Two columns for the terminal."""

    def text(value: Any) -> str:
        if value is None:
            return "-"
        return f"{value:.4f}" if isinstance(value, float) else str(value)

    width = max(len(name) for name in values)
    return "\n".join(f"{name:<{width}}  {text(value)}" for name, value in values.items())


def plot_curves(
    path: str, title: str, rows: Sequence[Mapping[str, Any]], tiers: Sequence[str] = ()
) -> None:
    """The curves of a run as a PNG, a panel each for loss, accuracy and accuracy by tier."""
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    panels = curves(rows, tiers)
    labels = dict.fromkeys(label for lines in panels.values() for label in lines)
    colors = {label: f"C{i}" for i, label in enumerate(labels)}
    figure = Figure(figsize=(4.5 * len(panels), 3.6), layout="constrained")
    FigureCanvasAgg(figure)
    all_axes: Any = figure.subplots(1, len(panels))
    for axes, (name, lines) in zip(all_axes, panels.items()):
        drawn = {label: points for label, points in lines.items() if points}
        for label, points in drawn.items():
            marker = "o" if len(points) < 2 else None
            axes.plot(*zip(*points), label=label, color=colors[label], marker=marker)
        axes.xaxis.get_major_locator().set_params(integer=True)
        axes.set_xlabel("round")
        axes.set_ylabel(name)
        axes.grid(alpha=0.3)
        if drawn:  # a run may diverge before it has anything to show
            axes.legend()
    figure.suptitle(title)
    picture = io.BytesIO()
    figure.savefig(picture, dpi=110, format="png")
    files.write(path, picture.getvalue())


Points = list[tuple[float, float]]


def curves(
    rows: Sequence[Mapping[str, Any]], tiers: Sequence[str] = ()
) -> dict[str, dict[str, Points]]:
    """What `plot_curves` draws: panel -> line -> points (round, value).

    A tier has no point in rounds in which none of its clients took part, and nothing has one where
    it is not finite.
    """

    def points(column: str, clients: str = "") -> Points:
        taken = [r for r in rows if r.get(clients, 1) and r.get(column) is not None]
        return [(r["round"], r[column]) for r in taken if math.isfinite(r[column])]

    panels = {
        name: {kind: points(f"{kind}_{name}") for kind in ("train", "test")}
        for name in ("loss", "accuracy")
    }
    by_tier = {name: points(f"train_accuracy_{name}", f"clients_{name}") for name in tiers}
    found = {name: line for name, line in by_tier.items() if line}
    return {**panels, "training accuracy by tier": found} if found else panels


def save_weights(path: str, names: Sequence[str], values: Sequence[Any]) -> None:
    """The model's weights by name, as an .npz file."""
    arrays = {f"{i:03d} {name}": np.asarray(v) for i, (name, v) in enumerate(zip(names, values))}
    files.write(path, files.npz(arrays))
