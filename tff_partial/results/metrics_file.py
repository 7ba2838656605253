"""metrics.csv: a row for each round, the file being complete at any moment."""

from __future__ import annotations

import csv
import io
import os
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from tff_partial.experiments.checkpoints import CheckpointError
from tff_partial.system import files

KEY = "round"


class MetricsFile:
    """The rows of a run; the file is written anew with every row.

    An append that is killed would leave half a row.

    Args:
      path: The file.
      columns: The first columns; others follow by name, as rows bring them.
    """

    def __init__(self, path: str, columns: Sequence[str]) -> None:
        self._path, self._first = path, columns
        self._columns = list(columns)
        self._rows: list[dict[str, Any]] = []

    def restore(self, done: int) -> None:
        """Goes back to so many rounds; at the beginning the file is made.

        Raises:
          CheckpointError: If it lacks one of these rounds.
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
        self._columns, self._rows = columns, rows

    def _expected(self, done: int, received: str) -> str:
        return (
            f"{self._path} must hold rounds 1 to {done}, as the run's checkpoint says. "
            f"Received: {received}"
        )

    def write(self, done: int, row: Mapping[str, Any]) -> None:
        """Adds the row of a round."""
        values = {name: np.asarray(value).tolist() for name, value in row.items()}
        self._columns += [name for name in sorted(values) if name not in self._columns]
        self._rows = [*self._rows[: done - 1], {KEY: done, **values}]
        self._save()

    def _save(self) -> None:
        text = io.StringIO(newline="")
        writer = csv.DictWriter(text, self._columns)
        writer.writeheader()
        writer.writerows(self._rows)
        files.write(self._path, text.getvalue().encode())

    def sync(self) -> None:
        """Makes the file's name survive a power cut; its content does from the start."""
        files.sync(os.path.dirname(os.path.abspath(self._path)))
