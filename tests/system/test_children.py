"""Processes that end with the one that started them."""

import pathlib
import signal
import subprocess
import sys
import time

from tff_partial.system import children

ROOT = pathlib.Path(__file__).parents[2]
# Starts a child that sleeps, prints its number and sleeps too.
PARENT = """
import signal, subprocess, sys, time
from tff_partial.system import children
sleeping = [sys.executable, "-S", "-c", "import time; time.sleep(99)"]
print(subprocess.Popen(children.command(sleeping, signal.SIGKILL)).pid, flush=True)
time.sleep(99)
"""


def test_the_program_gets_its_arguments_and_its_exit_code_is_returned():
    program = [sys.executable, "-c", "import sys; print(sys.argv[1:]); sys.exit(7)", "a b", "--c"]
    command = children.command(program, signal.SIGTERM)
    done = subprocess.run(command, capture_output=True, text=True)
    assert (done.returncode, done.stdout, done.stderr) == (7, "['a b', '--c']\n", "")


def test_a_child_does_not_outlive_a_parent_that_is_killed():
    command = [sys.executable, "-c", PARENT]
    with subprocess.Popen(command, cwd=ROOT, stdout=subprocess.PIPE, text=True) as parent:
        child = pathlib.Path("/proc") / parent.stdout.readline().strip()
        assert child.exists()
        parent.kill()
    deadline = time.monotonic() + 30
    while child.exists():
        assert time.monotonic() < deadline, "the child still runs"
        time.sleep(0.02)


def test_a_child_whose_parent_is_gone_does_not_begin():
    program = [sys.executable, "-c", "print('began')"]
    command = children.command(program, signal.SIGTERM)
    command[-len(program) - 2] = "1"  # not the number of this process
    done = subprocess.run(command, capture_output=True, text=True)
    assert (done.returncode, done.stdout) == (1, "")
    assert done.stderr == "the parent process is gone\n"
