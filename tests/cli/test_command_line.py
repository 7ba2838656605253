"""How commands end when they are interrupted, or nobody reads their output."""

import errno
import json
import os
import pathlib
import signal
import subprocess
import sys
import time

import pytest
import tensorflow as tf

from tff_partial.cli import command_line

ROOT = pathlib.Path(__file__).parents[2]
RUN = ["run_experiment.py", "--task=mnist", "--data=embedded", "--model=softmax", "--rounds=300"]


def start(arguments, **streams):
    # Buffered, as for users: an error of the last flush comes after everything else.
    environment = {name: value for name, value in os.environ.items() if name != "PYTHONUNBUFFERED"}
    return subprocess.Popen([sys.executable, *arguments], cwd=ROOT, env=environment, **streams)


def has_loaded(library):
    def is_there(process, folder):
        return library in pathlib.Path(f"/proc/{process.pid}/maps").read_text()

    return is_there


MOMENTS = {
    "own imports": has_loaded("_multiarray_umath"),
    "TensorFlow's imports": has_loaded("libtensorflow_framework"),
    "the folder is made": lambda process, folder: (folder / "config.json").exists(),
}


@pytest.mark.skipif(not os.path.exists("/proc/self/maps"), reason="tells moments by /proc")
@pytest.mark.parametrize("is_time", MOMENTS.values(), ids=MOMENTS.keys())
def test_ctrl_c_during_the_start_ends_with_130_and_leaves_nothing_half_written(is_time, tmp_path):
    folder = tmp_path / "run"
    with open(tmp_path / "log", "w") as log:
        process = start([*RUN, f"--output_dir={folder}"], stdout=log, stderr=log)
        deadline = time.monotonic() + 120
        while not is_time(process, folder):
            assert process.poll() is None
            assert time.monotonic() < deadline
            time.sleep(0.005)
        process.send_signal(signal.SIGINT)
        assert process.wait(timeout=60) == 130
    assert "Traceback" not in (tmp_path / "log").read_text()
    if folder.exists():
        assert json.loads((folder / "config.json").read_text())["settings"]["rounds"] == 300


COMMANDS = {
    "list": ["run_experiment.py", "--list"],
    "help": ["run_experiment.py", "--help"],
    "compare": ["-m", "tff_partial.compare", "--help"],
    "costs": ["-m", "tff_partial.costs", "--help"],
    "plots": ["-m", "tff_partial.plots", "--help"],
    "report": ["-m", "tff_partial.report", "--help"],
    "similarity": ["-m", "tff_partial.similarity", "--help"],
    "all commands": ["-m", "tff_partial.cli", "--help"],
}


@pytest.mark.parametrize("arguments", COMMANDS.values(), ids=COMMANDS.keys())
def test_a_reader_that_has_gone_is_no_error(arguments):
    read_end, write_end = os.pipe()
    os.close(read_end)
    try:
        process = start(arguments, stdout=write_end, stderr=subprocess.PIPE)
    finally:
        os.close(write_end)
    _, errors = process.communicate(timeout=120)
    assert errors == b""
    assert process.returncode == 128 + signal.SIGPIPE


def test_no_import_swallows_ctrl_c():
    swallow = "try: signal.raise_signal(signal.SIGINT)\nexcept BaseException: pass\n"
    program = (
        "import signal\nfrom tff_partial.system import interrupts as c\n{}\n" + swallow + "print(1)"
    )
    ends = program.format("c.end_when_interrupted()")
    assert start(["-c", ends]).wait(timeout=60) == 130
    raises = program.format("c.end_when_interrupted(); c.raise_when_interrupted()")
    assert start(["-c", raises], stdout=subprocess.DEVNULL).wait(timeout=60) == 0
    # As in jobs in the background of a shell.
    ignored = program.format("signal.signal(2, signal.SIG_IGN); c.end_when_interrupted()")
    assert start(["-c", ignored], stdout=subprocess.DEVNULL).wait(timeout=60) == 0


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
    assert command_line.line_of(OSError(text)) == line


def test_files_that_cannot_be_read_are_faults_in_python_and_tensorflow(tmp_path):
    missing = str(tmp_path / "none")
    for read in (open, tf.io.read_file):
        with pytest.raises(command_line.faults()) as error:
            read(missing)
        assert missing in command_line.line_of(error.value)
    full = OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
    assert isinstance(full, command_line.faults())


@pytest.mark.parametrize("error", [ValueError, tf.errors.InvalidArgumentError, KeyboardInterrupt])
def test_errors_of_the_program_are_not_faults(error):
    assert not issubclass(error, command_line.faults())
