"""What a run writes while it trains: metrics.csv and checkpoints.

Each file appears complete or not at all; what a killed run left of a write is removed.
"""

from __future__ import annotations

import csv
import os

import numpy as np

from tff_partial.core.types import Cell, Row, ServerState
from tff_partial.experiments.checkpoints import CheckpointError, Checkpoints
from tff_partial.experiments.client_store import ClientStates
from tff_partial.results import text_files
from tff_partial.system import files

KEY = "round"
COLUMNS = (KEY, "train_loss", "train_accuracy", "test_loss", "test_accuracy", "seconds")


class Outputs:
    """Files of a run.

    Folders are made here and not again, so that a run whose folder is removed notices it.

    Args:
      folder: The run's folder.
      states: What clients keep, which belongs to a checkpoint.
    """

    def __init__(self, folder: str, states: ClientStates) -> None:
        os.makedirs(os.path.join(folder, "checkpoints"), exist_ok=True)
        self._checkpoints = Checkpoints(os.path.join(folder, "checkpoints"))
        self._metrics = MetricsFile(os.path.join(folder, "metrics.csv"))
        self._states = states

    def restore(self, initial_state: ServerState) -> tuple[int, ServerState]:
        """Return the number of rounds done and the state after them; clients go back to it too.

        Raises:
          CheckpointError: If the files are damaged or of another version; they stay as they are.
        """
        restored = self._checkpoints.restore(initial_state)
        self._metrics.restore(restored.done)
        self._states.restore(restored.client_files, restored.older_files)
        return restored.done, restored.state

    def write_row(self, done: int, row: Row) -> None:
        """Add the row of a round; rows of later rounds, of an earlier start, are removed."""
        self._metrics.write(done, row)

    def checkpoint(self, done: int, state: ServerState) -> None:
        """Save the state of server and clients unless it is saved already.

        The server's is the last to be written: it says which of the clients' files count.
        """
        if done in self._checkpoints.rounds or done == 0:
            return
        client_files = self._states.write()
        self._metrics.sync()
        self._checkpoints.save(done, state, client_files)
        self._states.forget_replaced()


class MetricsFile:
    """metrics.csv: first `COLUMNS`, then others by name, as rows bring them.

    The file is written anew with every row: an append that is killed would leave half a row.
    """

    def __init__(self, path: str) -> None:
        self._path = path
        self._columns = list(COLUMNS)
        self._rows: list[dict[str, Cell]] = []

    def restore(self, done: int) -> None:
        """Go back to so many rounds; at the beginning the file is made.

        Raises:
          CheckpointError: If it lacks one of these rounds.
        """
        files.remove(self._path + files.TEMPORARY)
        self._columns, self._rows = list(COLUMNS), []
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

    def write(self, done: int, row: Row) -> None:
        """Add the row of a round."""
        values = {name: np.asarray(value).tolist() for name, value in row.items()}
        self._columns += [name for name in sorted(values) if name not in self._columns]
        self._rows = [*self._rows[: done - 1], {KEY: done, **values}]
        self._save()

    def _save(self) -> None:
        text_files.write_csv(self._path, self._columns, self._rows, line_end="\r\n")

    def sync(self) -> None:
        """Make the file's name survive a power cut; its content does from the start."""
        files.sync(os.path.dirname(os.path.abspath(self._path)))
