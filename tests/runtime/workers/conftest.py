"""Workers, contexts and child processes that end with the test."""

import subprocess
import sys

import pytest

from tests.runtime.workers.processes import Workers
from tff_partial.runtime.workers import remote


@pytest.fixture
def workers():
    pair = Workers(2)
    yield pair
    pair.stop()


@pytest.fixture
def connect():
    contexts = []

    def create(addresses, **options):
        contexts.append(remote.create_context(addresses, **options))
        return contexts[-1]

    yield create
    for context in contexts:
        context.close()


@pytest.fixture
def start_child(tmp_path):
    """Runs Python code with its output in a file; a pipe would hide what is tested here."""
    children = []

    def start(code):
        with open(tmp_path / "output", "wb") as output:
            child = subprocess.Popen(
                [sys.executable, "-c", code, str(tmp_path / "pid")],
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=output,
            )
        children.append(child)
        return child

    yield start
    for child in children:
        child.kill()
        child.wait()
