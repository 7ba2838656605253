"""Errors of the runtimes, known without what raises them."""

import subprocess
import sys

from tff_partial import runtime
from tff_partial.runtime import errors


def test_a_lost_worker_is_known_by_the_runtimes_name():
    assert runtime.WorkersLostError is errors.WorkersLostError
    assert issubclass(errors.WorkersLostError, RuntimeError)


def test_importing_it_imports_neither_grpc_nor_tensorflow():
    code = "import sys, tff_partial.runtime.errors; "
    code += "sys.exit(any(name in sys.modules for name in ('grpc', 'tensorflow')))"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0
