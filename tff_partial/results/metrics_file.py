"""metrics.csv: a row for each round; the file is complete at any moment."""

from __future__ import annotations

import csv
import os
from collections.abc import Mapping, Sequence

import numpy as np
from numpy.typing import ArrayLike

from tff_partial.results.schema import MetricsRow
from tff_partial.results.text_files import LARGEST, ResultsError, read_csv, write_csv
from tff_partial.system import files

NAME = "metrics.csv"
KEY = "round"


class CheckpointError(ResultsError):
    """Files that a run cannot resume from."""


def read(folder: str) -> list[MetricsRow]:
    """Read the rows of a run: floats, None where a cell is empty; no rows without a file.

    Raises:
      ResultsError: If it is not a table of numbers with a round in every row.
    """
    try:
        table = read_csv(os.path.join(folder, NAME))
        rows: list[MetricsRow] = [
            {k: float(v) if v else None for k, v in row.items()} for row in table
        ]
    except FileNotFoundError:
        return []
    except ValueError as error:
        raise ResultsError(f"metrics.csv must hold numbers. Received: {folder}: {error}") from None
    for row in rows:
        number = row.get(KEY)
        if number is None or not 0 <= number <= LARGEST:
            raise ResultsError(f"metrics.csv must have rounds. Received: {folder}, round={number}")
    return rows


class MetricsFile:
    """The rows of a run, all written again with every round.

    An append that is killed would leave half a row.

    Args:
      path: The file.
      columns: The first columns; others follow as rows bring them, sorted by name.
    """

    def __init__(self, path: str, columns: Sequence[str]) -> None:
        self._path, self._first = path, columns
        self._columns = list(columns)
        self._rows: list[Mapping[str, object]] = []

    def restore(self, done: int) -> None:
        """Keep only the first `done` rounds; create an empty file if there are none.

        Raises:
          CheckpointError: If the file lacks one of these rounds.
        """
        files.remove(self._path + files.TEMPORARY)
        self._columns, self._rows = list(self._first), []
        if not done:
            self._save()
            return
        try:
            with open(self._path, newline="", encoding="utf-8") as file:
                reader = csv.DictReader(file, strict=True)
                rows = list(reader)[:done]
                columns = list(reader.fieldnames or [])
            rounds = [int(row.get(KEY) or 0) for row in rows]
        except (OSError, ValueError, csv.Error) as error:
            raise CheckpointError(self._expected(done, str(error))) from error
        is_ragged = any(None in row or None in row.values() for row in rows)
        if rounds != list(range(1, done + 1)) or is_ragged:
            raise CheckpointError(self._expected(done, f"{len(rows)} rows, not all of these"))
        self._columns, self._rows = columns, [*rows]

    def _expected(self, done: int, received: str) -> str:
        return (
            f"{self._path} must hold rounds 1 to {done}, as the run's checkpoint says. "
            f"Received: {received}"
        )

    def write(self, done: int, row: Mapping[str, ArrayLike]) -> None:
        """Add the row of a round."""
        values = {name: np.asarray(value).tolist() for name, value in row.items()}
        self._columns += [name for name in sorted(values) if name not in self._columns]
        self._rows = [*self._rows[: done - 1], {KEY: done, **values}]
        self._save()

    def _save(self) -> None:
        write_csv(self._path, self._columns, self._rows, line_end="\r\n")

    def sync(self) -> None:
        """Make the file's name survive a power cut; its content does from the start."""
        files.sync(os.path.dirname(os.path.abspath(self._path)))
