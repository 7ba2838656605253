"""The lock of a folder."""

import errno
import fcntl
import os
import socket
import threading

import pytest

from tff_partial.system import folder_lock


def test_a_folder_has_one_holder_at_a_time(tmp_path):
    folder = str(tmp_path)
    assert not folder_lock.is_held(folder)
    with folder_lock.FolderLock(folder):
        assert folder_lock.is_held(folder)
        holder = f"process {os.getpid()} on {socket.gethostname()} since 20"
        expected = f"^data_dir must be used by one run at a time. Received: {folder}, in use by "
        with pytest.raises(folder_lock.FolderInUseError, match=expected + holder) as error:
            folder_lock.FolderLock(folder, "data_dir")
        assert "\n" not in str(error.value)
    assert not folder_lock.is_held(folder)
    folder_lock.FolderLock(folder).close()
    assert os.listdir(folder) == [folder_lock.NAME]


def test_looking_does_not_keep_a_run_from_starting(tmp_path):
    folder = str(tmp_path)
    folder_lock.FolderLock(folder).close()
    with open(tmp_path / folder_lock.NAME) as looking:
        fcntl.flock(looking, fcntl.LOCK_SH)
        assert not folder_lock.is_held(folder)  # others that look do not count
        end = threading.Timer(0.01, lambda: fcntl.flock(looking, fcntl.LOCK_UN))
        end.start()
        folder_lock.FolderLock(folder).close()
        end.join()


@pytest.mark.parametrize("number", [errno.ENOLCK, errno.ENOTSUP])
def test_a_file_system_without_locks_is_a_warning(number, tmp_path, monkeypatch, capsys):
    def fail(*unused):
        raise OSError(number, os.strerror(number))

    monkeypatch.setattr(fcntl, "flock", fail)
    folder_lock.FolderLock(str(tmp_path)).close()
    assert not folder_lock.is_held(str(tmp_path))
    (line,) = capsys.readouterr().err.splitlines()
    assert line.startswith(f"warning: {tmp_path} cannot be locked: ")


def test_other_faults_are_errors(tmp_path, monkeypatch):
    def fail(*unused):
        raise OSError(errno.EIO, "broken")

    monkeypatch.setattr(fcntl, "flock", fail)
    with pytest.raises(OSError, match="broken"):
        folder_lock.FolderLock(str(tmp_path))
