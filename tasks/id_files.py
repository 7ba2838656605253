"""Files that say who owns each training example, for the partition `ids:FILE`."""

from __future__ import annotations

import pathlib
import re
from typing import Optional

import numpy as np

from . import real


def read(name: str, data_dir: Optional[str], examples: int) -> np.ndarray:
    """Return the id of each training example's owner, integers or texts [examples].

    Args:
      name: An .npy file, or a text file with one id a line; searched for in the data folder if it
        is not there as named.
      data_dir: The data folder; None for the default of tensorflow-datasets.
      examples: How many there must be.

    Raises:
      ValueError: If the file cannot be read or does not fit the training set, in one line.
    """
    path = pathlib.Path(name)
    if not path.is_file():
        path = real.folder_of(data_dir) / name
    try:
        ids = _parse(path)
    except (OSError, ValueError, EOFError) as error:
        raise ValueError(
            "partition ids:FILE must name an .npy file or a text with one id a line, as it is or "
            f"in --data_dir. Received: FILE={name} ({type(error).__name__})"
        ) from error
    if ids.shape != (examples,):
        raise ValueError(
            f"partition ids:FILE must have an id for each of {examples} training examples. "
            f"Received: FILE={name}, shape {list(ids.shape)}"
        )
    return ids


def _parse(path: pathlib.Path) -> np.ndarray:
    if path.suffix == ".npy":
        return np.asarray(np.load(path, allow_pickle=False))
    lines = path.read_text(encoding="utf-8").splitlines()
    # Numbers in both formats are the same owners, in the same order.
    are_numbers = all(re.fullmatch(r"0|-?[1-9]\d{0,17}", line) for line in lines)
    return np.array(lines, np.int64 if are_numbers and lines else None)
