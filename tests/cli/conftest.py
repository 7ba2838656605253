"""Workers for the command that starts one."""

from tests.runtime.workers.conftest import connect, workers

__all__ = ["connect", "workers"]
