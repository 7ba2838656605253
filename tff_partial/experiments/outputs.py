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

COLUMNS = ("round", "train_loss", "train_accuracy", "test_loss", "test_accuracy", "seconds")


class Outputs:
    """Files of a run; a checkpoint includes the states of its clients.

    Folders are made here and not again, so that a run whose folder is removed notices it. The
    columns of metrics.csv are `COLUMNS`, then others by name, as rows bring them.
    """

    def __init__(self, folder: str, states: ClientStates) -> None:
        os.makedirs(os.path.join(folder, "checkpoints"), exist_ok=True)
        self._checkpoints = Checkpoints(os.path.join(folder, "checkpoints"))
        self._folder, self._states = folder, states
        self._metrics = os.path.join(folder, "metrics.csv")
        self._columns, self._rows = list(COLUMNS), list[dict[str, Cell]]()

    def restore(self, initial_state: ServerState) -> tuple[int, ServerState]:
        """Return the number of rounds done and the state after them; clients go back to it too.

        Raises:
          CheckpointError: If the files are damaged or of another version; they stay as they are.
        """
        restored = self._checkpoints.restore(initial_state)
        files.remove(self._metrics + files.TEMPORARY)
        if restored.done:
            self._read_rows(restored.done)
        else:
            self._save_rows()
        self._states.restore(restored.client_files, restored.older_files)
        return restored.done, restored.state

    def write_row(self, done: int, row: Row) -> None:
        """Add the row of a round; rows of later rounds, of an earlier start, are removed."""
        values = {name: np.asarray(value).tolist() for name, value in row.items()}
        self._columns += [name for name in sorted(values) if name not in self._columns]
        self._rows = [*self._rows[: done - 1], {"round": done, **values}]
        self._save_rows()

    def checkpoint(self, done: int, state: ServerState) -> None:
        """Save the state of server and clients unless it is saved already.

        The server's is the last to be written: it says which of the clients' files count.
        """
        if done in self._checkpoints.rounds or done == 0:
            return
        client_files = self._states.write()
        files.sync(self._folder)  # the name of metrics.csv survives a power cut
        self._checkpoints.save(done, state, client_files)
        self._states.forget_replaced()

    def _save_rows(self) -> None:
        # All of them: an append that is killed would leave half a row.
        text_files.write_csv(self._metrics, self._columns, self._rows, line_end="\r\n")

    def _read_rows(self, done: int) -> None:
        """Read so many rows; raise a CheckpointError if one of them is missing."""
        expected = f"{self._metrics} must hold rounds 1 to {done}, as the run's checkpoint says. "
        try:
            with open(self._metrics, newline="", encoding="utf-8") as file:
                reader = csv.DictReader(file, strict=True)
                rows = list(reader)[:done]
                columns = list(reader.fieldnames or [])
            rounds = [int(row.get("round") or 0) for row in rows]
        except (OSError, ValueError, csv.Error) as error:
            raise CheckpointError(f"{expected}Received: {error}") from error
        is_ragged = any(None in row or None in row.values() for row in rows)
        if rounds != list(range(1, done + 1)) or is_ragged:
            raise CheckpointError(f"{expected}Received: {len(rows)} rows, not all of these")
        self._columns, self._rows = columns, [*rows]
