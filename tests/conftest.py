"""Every test runs on the default runtime unless it sets another."""

import os

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")

import pytest

from tff_partial import runtime


@pytest.fixture(scope="session", autouse=True)
def default_runtime():
    context = runtime.set_default()
    yield context
    context.close()
