"""Files that appear complete or not at all, and survive a power cut.

A file is written beside its place, synced and renamed. Syncing the folder afterwards makes the new
name itself survive. What a killed write leaves is `<name>_temp`.
"""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterator
from typing import Any

TEMPORARY = "_temp"


@contextlib.contextmanager
def replacing(path: str, mode: str = "wb", sync: bool = True, **options: Any) -> Iterator[Any]:
    """Opens a file that takes the place of `path` when the block ends without an error."""
    temporary = path + TEMPORARY
    try:
        with open(temporary, mode, **options) as file:
            yield file
            if sync:
                file.flush()
                os.fsync(file.fileno())
        os.replace(temporary, path)
    except BaseException:
        # On a full disk, half a file would take the room that is missing.
        remove(temporary)
        raise


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
