"""One remote worker: its address, and whether it answers."""

import concurrent.futures
from collections.abc import Callable
from typing import Any, Optional

from absl import logging

from tff_partial.runtime.workers import client, process
from tff_partial.runtime.workers.client import WorkerLost


class RemoteWorker:
    """One remote worker, connected or lost."""

    def __init__(self, address: str, timeout: float, compiler_fn: Callable[[Any], Any]) -> None:
        self.address = address
        self.is_ready = False
        self.contact: Optional[concurrent.futures.Future] = None
        self.problem = ""
        self._timeout = timeout
        self._client = client.WorkerClient(compiler_fn)

    def connect(self) -> None:
        channel = process.open_channel(self.address)
        if process.answers(channel, self._timeout):
            self._client.connect(channel, self._is_alive)
            self.is_ready, self.problem = True, ""
        else:
            channel.close()
            self.problem = self.problem or "does not answer"

    def invoke(self, comp: Any, arg: Any) -> Any:
        try:
            return self._client.invoke(comp, arg)
        except WorkerLost as error:
            self.is_ready, self.problem = False, str(error)
            logging.warning("worker %s is lost: %s", self.address, error)
            raise

    @property
    def is_busy(self) -> bool:
        return self._client.is_busy

    def abort(self) -> None:
        self._client.abort()

    def close(self) -> None:
        self.is_ready = False
        self._client.disconnect()

    def _is_alive(self) -> bool:
        return process.is_alive(self.address, self._timeout)
