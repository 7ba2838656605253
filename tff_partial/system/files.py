"""Files that appear complete or not at all, and survive a power cut.

A file is written beside its place, synced and renamed. Syncing the folder afterwards makes the new
name itself survive. What a killed write leaves is `<name>_temp`.
"""

from __future__ import annotations

import contextlib
import io
import os
from collections.abc import Mapping
from typing import Any

import numpy as np

TEMPORARY = "_temp"


def write(path: str, content: bytes, synced: bool = True) -> None:
    """Puts a file in the place of `path`."""
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


def npz(arrays: Mapping[str, Any]) -> bytes:
    """The content of a .npz file.

    In memory: where a disk is full, `np.savez` to a file raises once more when it is collected.
    """
    buffer = io.BytesIO()
    np.savez(buffer, **arrays)
    return buffer.getvalue()


def sync(path: str) -> None:
    """Waits until a file, or the names in a folder, are on the disk."""
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def remove(path: str) -> None:
    """Removes a file if it exists."""
    with contextlib.suppress(FileNotFoundError):
        os.remove(path)
