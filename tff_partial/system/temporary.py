"""A temporary folder of a run's own, so that nothing is left of it, kill -9 included.

TensorFlow writes a file into the temporary folder for every function that it traces and removes
them when Python ends. A killed run leaves them; here the next run removes them. A run locks its
folder as long as it lives, and the lock goes with the process however that ends.
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

# No name that somebody gives a folder: what begins with it is removed.
_PREFIX = ".tff_partial_run_"
_ATTEMPTS = 5


@functools.cache
def use_own_folder() -> Optional[str]:
    """Makes `tempfile` use a new folder until Python ends; removes those of dead runs.

    Returns:
      The folder, or None where none can be made: then everything stays as it is.
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
    """Removes what dead runs of this user left in `root`; a live run's folder is locked."""
    for folder in glob.glob(os.path.join(glob.escape(root), _PREFIX + "*")):
        handle = _lock(folder)
        if handle is not None:
            shutil.rmtree(folder, ignore_errors=True)
            os.close(handle)


def _create_locked(root: str) -> str:
    for _ in range(_ATTEMPTS):
        folder = tempfile.mkdtemp(prefix=_PREFIX, dir=root)
        # Another run may have taken the new folder for a dead run's before it was locked.
        if _lock(folder) is not None and os.path.isdir(folder):
            return folder
        shutil.rmtree(folder, ignore_errors=True)
    raise OSError(f"{root} has no locks")


def _lock(folder: str) -> Optional[int]:
    """An open and locked handle of the folder; None if it is another process's or user's."""
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
