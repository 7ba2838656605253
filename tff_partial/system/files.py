"""Files that appear complete or not at all, and survive a power cut.

A file is written as `<name>_temp`, synced and renamed; a write that is killed leaves that file.
Syncing the folder afterwards makes the new name itself survive.
"""

from __future__ import annotations

import contextlib
import io
import os
from collections.abc import Mapping

import numpy as np
from numpy.typing import ArrayLike

TEMPORARY = "_temp"


def write(path: str, content: bytes, synced: bool = True) -> None:
    """Create or replace a file, on the disk at once unless `synced` is False."""
    temporary = path + TEMPORARY
    try:
        with open(temporary, "wb") as file:
            file.write(content)
            if synced:
                file.flush()
                os.fsync(file.fileno())
        os.replace(temporary, path)
    except BaseException:
        # On a full disk, half a file would take the room that is missing.
        remove(temporary)
        raise


def npz(arrays: Mapping[str, ArrayLike]) -> bytes:
    """Return the content of a .npz file.

    In memory: `np.savez` to a file on a full disk raises again when it is garbage collected.
    """
    buffer = io.BytesIO()
    np.savez(buffer, **arrays)
    return buffer.getvalue()


def sync(path: str) -> None:
    """Wait until a file, or the names in a folder, are on the disk."""
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def remove(path: str) -> None:
    """Remove a file if it exists."""
    with contextlib.suppress(FileNotFoundError):
        os.remove(path)
