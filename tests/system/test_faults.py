"""Faults of the machine, as errors and in a line."""

import errno
import os

import pytest
import tensorflow as tf

from tff_partial.system import faults


@pytest.mark.parametrize(
    ("text", "line"),
    [
        ("disk full", "disk full"),
        ("disk full\nat line 3", "disk full"),
        ("{{function_node __wrapped__Save}} disk full [Op:Save] name: ", "disk full"),
        ("", "OSError"),
    ],
)
def test_a_line_without_the_names_of_operations(text, line):
    assert faults.line(OSError(text)) == line


def test_files_that_cannot_be_read_are_faults_in_python_and_tensorflow(tmp_path):
    missing = str(tmp_path / "none")
    for read in (open, tf.io.read_file):
        with pytest.raises(faults.errors()) as error:
            read(missing)
        assert missing in faults.line(error.value)
    full = OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
    assert isinstance(full, faults.errors())


@pytest.mark.parametrize("error", [ValueError, tf.errors.InvalidArgumentError, KeyboardInterrupt])
def test_errors_of_the_program_are_not_faults(error):
    assert not issubclass(error, faults.errors())
