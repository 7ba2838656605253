"""An exclusive lock on a folder, for as long as a run writes into it.

The kernel keeps the lock (`flock` on the file `run.lock`), so it ends with the process, however
that ends. The file stays and names the process that holds the lock or held it last.
"""

from __future__ import annotations

import errno
import fcntl
import os
import socket
import sys
import time

NAME = "run.lock"
_PAUSE, _MOMENT = 0.02, 0.12  # seconds; `is_held` holds a lock for a moment
_NO_LOCKS = (errno.ENOLCK, errno.ENOTSUP, errno.ENOSYS)


class FolderInUseError(ValueError):
    """Another run is writing into the folder."""


class FolderLock:
    """A lock on an existing folder that is held until it is closed.

    Args:
      folder: The folder.
      name: What messages call it.
      patience: Seconds to wait for another holder.

    Raises:
      FolderInUseError: If another run holds it.
    """

    def __init__(self, folder: str, name: str = "output_dir", patience: float = _MOMENT) -> None:
        self._file = open(os.path.join(folder, NAME), "a+")  # noqa: SIM115  (`close`)
        try:
            self._lock(folder, name, time.monotonic() + patience)
            self._write_holder()
        except BaseException:
            self._file.close()
            raise

    def _lock(self, folder: str, name: str, deadline: float) -> None:
        while True:
            try:
                fcntl.flock(self._file, fcntl.LOCK_EX | fcntl.LOCK_NB)
                return
            except BlockingIOError:
                if time.monotonic() > deadline:
                    break
                time.sleep(_PAUSE)
            except OSError as error:
                if error.errno not in _NO_LOCKS:
                    raise
                # Some network file systems have no locks; runs are not refused for that.
                print(f"warning: {folder} cannot be locked: {error}", file=sys.stderr)
                return
        raise FolderInUseError(
            f"{name} must be used by one run at a time. "
            f"Received: {folder}, in use by {self._holder()}"
        )

    def _holder(self) -> str:
        self._file.seek(0)
        return self._file.read(1000).strip() or "another run"

    def _write_holder(self) -> None:
        self._file.truncate(0)
        since = time.strftime("%Y-%m-%d %H:%M:%S")
        self._file.write(f"process {os.getpid()} on {socket.gethostname()} since {since}\n")
        self._file.flush()

    def close(self) -> None:
        self._file.close()

    def __enter__(self) -> FolderLock:
        return self

    def __exit__(self, *unused: object) -> None:
        self.close()


def is_held(folder: str) -> bool:
    """Return whether a running process holds the lock of a folder."""
    try:
        with open(os.path.join(folder, NAME)) as file:
            # Shared: others may look at the same time.
            fcntl.flock(file, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except BlockingIOError:
        return True
    except FileNotFoundError:
        return False
    except OSError as error:
        if error.errno not in _NO_LOCKS:
            raise
    return False
