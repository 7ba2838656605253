"""JSON and CSV files of results: written complete or not at all, and checked when read.

Somebody may have edited or damaged them, or put something else in their place.
"""

from __future__ import annotations

import csv
import io
import json
import os
from collections.abc import Iterable, Mapping, Sequence

from tff_partial.results.checks import Json
from tff_partial.system import files

LARGEST = 2**63
_DEEPEST = 20


class ResultsError(ValueError):
    """A results folder that cannot be used."""


def check_regular(path: str) -> None:
    """Raise `ResultsError` if the path is neither free nor a regular file.

    Reading a pipe would wait forever; writing /dev/null would turn it into a file.
    """
    if os.path.lexists(path) and not os.path.isfile(path):
        raise ResultsError(f"a file must be a regular one. Received: {path}")


def read_json(path: str) -> dict[str, Json]:
    """Read a JSON object.

    Raises:
      FileNotFoundError: If there is no such file.
      ResultsError: If it cannot be read, is not an object, or cannot be shown: text that is not
        Unicode, numbers too large for a float, or endless nesting.
    """
    check_regular(path)
    try:
        with open(path, encoding="utf-8") as file:
            content = json.load(file)
        _check_plain(content)
    except (FileNotFoundError, NotADirectoryError) as error:
        raise FileNotFoundError(str(error)) from None
    except (OSError, ValueError, RecursionError) as error:
        raise ResultsError(f"a file must hold JSON. Received: {path}: {error}") from None
    if not isinstance(content, dict):
        raise ResultsError(f"a file must hold a JSON object. Received: {path}")
    return content


def _check_plain(value: Json, depth: int = 0) -> None:
    if depth > _DEEPEST:
        raise ValueError(f"lists or objects within more than {_DEEPEST} others")
    if isinstance(value, str):
        value.encode()  # a lone surrogate is a ValueError
    elif isinstance(value, int) and abs(value) > LARGEST:
        raise ValueError(f"a number of {len(str(value))} digits")
    elif isinstance(value, (list, dict)):
        for item in value if isinstance(value, list) else (*value, *value.values()):
            _check_plain(item, depth + 1)


def write_text(path: str, text: str) -> None:
    """Write a text file, complete or not at all.

    Raises:
      ResultsError: If the path is something else than a regular file.
    """
    check_regular(path)
    files.write(path, text.encode())


def write_json(path: str, value: Json) -> None:
    """Write a value as JSON; see `write_text`."""
    write_text(path, json.dumps(value, indent=2) + "\n")


def read_csv(path: str) -> list[dict[str, str]]:
    """Read the rows of a CSV file as text; cells that a short row lacks are empty.

    Raises:
      FileNotFoundError: If there is no such file.
      ResultsError: If it cannot be read, or a row is longer than the header.
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
        raise ResultsError(f"{path} must have no row longer than its header. Received: one")
    return rows


def write_csv(
    path: str, columns: Sequence[str], rows: Iterable[Mapping[str, Json]], line_end: str = "\n"
) -> None:
    """Write rows as CSV, complete or not at all; columns that a row lacks are empty."""
    text = io.StringIO(newline="")
    writer = csv.DictWriter(text, columns, lineterminator=line_end)
    writer.writeheader()
    writer.writerows(rows)
    files.write(path, text.getvalue().encode())
