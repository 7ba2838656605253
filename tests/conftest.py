"""Every test runs on the default runtime unless it sets another."""

import os
import signal

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")

import pytest

# First, as in run_experiment.py: it sets what TensorFlow reads when it is imported (oneDNN).
from tff_partial import runtime
from tff_partial.core import lazy
from tff_partial.core.lazy import tff

lazy.load()  # the quickest way, and what is there then is not searched for garbage again and again

# Tests that several files share.
for shared in ("averaging", "layer", "stateful", "submodel"):
    pytest.register_assert_rewrite(f"tests.algorithms.{shared}_rounds")
pytest.register_assert_rewrite("tests.tasks.declared")

# A shell starts background jobs with SIGINT ignored, and processes of the tests would inherit that.
signal.signal(signal.SIGINT, signal.default_int_handler)


@pytest.fixture(scope="session", autouse=True)
def cache_folder(tmp_path_factory):
    """A cache of traced graphs that the tests of this process share, and the user does not."""
    os.environ["XDG_CACHE_HOME"] = str(tmp_path_factory.mktemp("cache"))


@pytest.fixture(scope="session", autouse=True)
def default_runtime():
    context = runtime.set_default()
    yield context
    context.close()


@pytest.fixture
def keep_runtime(default_runtime):
    """For tests that call `run_experiment.main`, which sets a runtime of its own."""
    yield
    tff.framework.set_default_context(default_runtime)


@pytest.fixture
def results(tmp_path):
    """A folder of results, not made yet."""
    return tmp_path / "results"
