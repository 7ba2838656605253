"""A temporary folder for each run, so that nothing is left behind, even after kill -9.

TensorFlow writes a temporary file for every function that it traces and removes them when Python
ends. What a killed run leaves is removed by the next one. A run locks its folder, and the lock ends
with the process, however that ends.
"""

from __future__ import annotations

import atexit
import fcntl
import functools
import glob
import os
import shutil
import tempfile
from typing import Optional

# Nobody would name a folder like this: those of dead runs are removed.
_PREFIX = ".tff_partial_run_"
_ATTEMPTS = 5


@functools.cache
def use_own_folder() -> Optional[str]:
    """Make `tempfile` use a new folder until Python ends, and remove those of dead runs.

    Returns:
      The folder, or None if none can be created; nothing changes then.
    """
    try:
        root = tempfile.gettempdir()
        remove_leftovers(root)
        folder = _create_locked(root)
    except OSError:
        return None
    tempfile.tempdir = folder
    # Registered before TensorFlow's own removals, and so called after them.
    atexit.register(_remove, folder, os.getpid())
    return folder


def remove_leftovers(root: str) -> None:
    """Remove what dead runs of this user left in `root`; a live run's folder is locked."""
    for folder in glob.glob(os.path.join(glob.escape(root), _PREFIX + "*")):
        handle = _lock(folder)
        if handle is not None:
            shutil.rmtree(folder, ignore_errors=True)
            os.close(handle)


def _create_locked(root: str) -> str:
    for _ in range(_ATTEMPTS):
        folder = tempfile.mkdtemp(prefix=_PREFIX, dir=root)
        # Before it was locked, another run may have taken it for a dead run's.
        if _lock(folder) is not None and os.path.isdir(folder):
            return folder
        shutil.rmtree(folder, ignore_errors=True)
    raise OSError(f"{root} has no locks")


def _lock(folder: str) -> Optional[int]:
    """Open and lock the folder; None if it belongs to another process or user."""
    try:
        handle = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW)
    except OSError:
        return None
    try:
        fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
        if os.fstat(handle).st_uid == os.getuid():
            return handle
    except OSError:
        pass
    os.close(handle)
    return None


def _remove(folder: str, owner: int) -> None:
    if os.getpid() == owner:  # Not a fork of the owner.
        shutil.rmtree(folder, ignore_errors=True)
