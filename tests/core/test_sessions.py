"""Sessions."""

import errno
import os

import pytest
import tensorflow as tf

from tff_partial.core import sessions


@pytest.mark.parametrize("has_stderr", [True, False])
def test_a_session_runs_and_stderr_is_there_afterwards(has_stderr, monkeypatch, capfd):
    def fail(number):
        raise OSError(errno.EBADF, os.strerror(errno.EBADF))

    sessions._start_first.cache_clear()
    with monkeypatch.context() as patch, tf.Graph().as_default():
        if not has_stderr:
            patch.setattr(os, "dup", fail)
        with sessions.create() as session:
            assert session.run(tf.constant(2) + 1) == 3
    os.write(2, b"heard\n")
    assert capfd.readouterr().err == "heard\n"
