"""Both runtimes, one worker for each file."""

import pytest

from tff_partial.runtime.in_process import context as in_process
from tff_partial.runtime.workers import local_cpp


@pytest.fixture(scope="module")
def cpp():
    context = local_cpp.create_context()
    yield context
    context.close()


@pytest.fixture(scope="module")
def here():
    return in_process.InProcessContext()
