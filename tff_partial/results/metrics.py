"""metrics.csv: a row for each round of a run."""

from __future__ import annotations

import os

from tff_partial.results.schema import MetricsRow
from tff_partial.results.text_files import LARGEST, ResultsError, read_csv


def read(folder: str) -> list[MetricsRow]:
    """Read the rows of a run: floats, None where a cell is empty; no rows without a file.

    Raises:
      ResultsError: If it is not a table of numbers with a round in every row.
    """
    try:
        table = read_csv(os.path.join(folder, "metrics.csv"))
        rows: list[MetricsRow] = [
            {name: float(text) if text else None for name, text in row.items()} for row in table
        ]
    except FileNotFoundError:
        return []
    except ValueError as error:
        raise ResultsError(f"metrics.csv must hold numbers. Received: {folder}: {error}") from None
    for row in rows:
        number = row.get("round")
        if number is None or not 0 <= number <= LARGEST:
            raise ResultsError(f"metrics.csv must have rounds. Received: {folder}, round={number}")
    return rows
