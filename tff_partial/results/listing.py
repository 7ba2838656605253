"""The runs below a results folder and how far each is, from a few of their files."""

from __future__ import annotations

import csv
import dataclasses
import os
from collections.abc import Iterator, Sequence
from typing import Optional

from tff_partial.results import metrics, summary, text_files
from tff_partial.results.folder import CONFIG
from tff_partial.results.schema import Fields
from tff_partial.results.text_files import ResultsError
from tff_partial.system import folder_lock

STATES = ("running", "finished", "stopped", "diverged")
_ACCURACIES = ("test_accuracy", metrics.SAMPLED_ACCURACY)


@dataclasses.dataclass(frozen=True)
class Listed:
    """A run.

    Attributes:
      folder: Where it is.
      state: One of `STATES`: a run that is not finished is running as long as its lock is held.
      done: Rounds done.
      rounds: Rounds planned.
      accuracy: The last test accuracy, maybe on a sample; None if there is none yet.
      task: Its task.
      algo: Its algorithm.
      seed: Its seed.
      changed: When a round was last written, in seconds since 1970.
    """

    folder: str
    state: str
    done: int
    rounds: int
    accuracy: Optional[float]
    task: str
    algo: str
    seed: int
    changed: float


def find(roots: Sequence[str]) -> Iterator[str]:
    """Yield the folders of runs below some folders, in order.

    Raises:
      ResultsError: If one of these is no folder.
    """
    for root in roots:
        if not os.path.isdir(root):
            raise ResultsError(f"results must be a folder. Received: {root}")
        for folder, inner, names in os.walk(root):
            inner.sort()
            if CONFIG in names:
                yield folder
                inner.clear()  # what is below a run belongs to it


def read(folder: str) -> Listed:
    """Read a run.

    Raises:
      ResultsError: If its files are damaged.
    """
    settings = _read(folder, CONFIG).get("settings")
    if not isinstance(settings, dict):
        raise ResultsError(f"config.json must have settings. Received: {folder}")
    rounds, seed = (settings.get(name) or 0 for name in ("rounds", "seed"))
    if not isinstance(rounds, int) or not isinstance(seed, int):
        raise ResultsError(f"rounds and seed must be integers. Received: {folder}")
    path = os.path.join(folder, "metrics.csv")
    done, accuracy = _read_metrics(path)
    if os.path.isfile(os.path.join(folder, "similarity.csv")):
        done = rounds  # an analysis: its models are in folders of their own
    return Listed(
        folder,
        _state(folder, done, rounds),
        done,
        rounds,
        accuracy,
        str(settings.get("task") or ""),
        str(settings.get("algo") or ""),
        seed,
        os.path.getmtime(path if os.path.isfile(path) else os.path.join(folder, CONFIG)),
    )


def _state(folder: str, done: int, rounds: int) -> str:
    if folder_lock.is_held(folder):
        return "running"
    diverged_at = summary.diverged_at(_read(folder, "summary.json"))
    if diverged_at is not None and done <= diverged_at:  # not those of an earlier start
        return "diverged"
    return "finished" if done >= rounds else "stopped"


def _read(folder: str, name: str) -> Fields:
    try:
        return text_files.read_json(os.path.join(folder, name))
    except FileNotFoundError:
        return {}


def _read_metrics(path: str) -> tuple[int, Optional[float]]:
    """Return the number of rows and the last accuracy; no other cell is read."""
    try:
        text_files.check_regular(path)
        with open(path, encoding="utf-8", newline="") as file:
            reader = csv.reader(file)
            head = next(reader, [])
            places = [head.index(name) for name in _ACCURACIES if name in head]
            rows = [[row[place] for place in places] for row in reader]
        tested = [text for row in rows for text in row if text]
        return len(rows), float(tested[-1]) if tested else None
    except FileNotFoundError:
        return 0, None
    except (OSError, ValueError, IndexError, csv.Error) as error:
        raise ResultsError(f"{path} must be a table of a run. Received: {error}") from None
