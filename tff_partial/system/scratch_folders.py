"""Folders for what runs keep on disk while they train, one for each run.

    <parent>/record-<hash of host and results folder>/

A run's folder is locked while the run lives and removed when it ends. The next run with the same
parent removes the folders of killed runs. Remote workers create a folder of the same name when they
write, and keep it.
"""

from __future__ import annotations

import contextlib
import fcntl
import hashlib
import os
import re
import shutil
import socket
from collections.abc import Iterator

from tff_partial.system import folder_lock

PREFIX = "record-"
_NAME = re.compile(PREFIX + "[0-9a-f]{16}")
_TURN = "records.lock"


def name_of(parent: str, output_dir: str) -> str:
    """Return the folder of the run that writes its results to `output_dir`."""
    identity = f"{socket.gethostname()}:{os.path.realpath(output_dir)}"
    return os.path.join(parent, PREFIX + hashlib.sha256(identity.encode()).hexdigest()[:16])


@contextlib.contextmanager
def own(parent: str, output_dir: str) -> Iterator[str]:
    """Create the run's folder, remove it after the block; remove those of killed runs."""
    path = name_of(parent, output_dir)
    os.makedirs(parent, exist_ok=True)
    # One at a time: a folder that was just made is not locked yet.
    with open(os.path.join(parent, _TURN), "a") as turn:
        fcntl.flock(turn, fcntl.LOCK_EX)
        for name in filter(_NAME.fullmatch, os.listdir(parent)):
            other = os.path.join(parent, name)
            is_ours = os.path.isfile(os.path.join(other, folder_lock.NAME))
            if is_ours and not folder_lock.is_held(other):
                shutil.rmtree(other, ignore_errors=True)
        os.makedirs(path, exist_ok=True)
        lock = folder_lock.FolderLock(path, "the folder of a run's records")
    with lock:
        try:
            yield path
        finally:
            shutil.rmtree(path, ignore_errors=True)
