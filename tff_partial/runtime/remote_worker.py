"""One remote worker: its address, and whether it answers."""

import concurrent.futures
import re
from collections.abc import Callable, Sequence
from typing import Any, Optional

from absl import logging

from tff_partial.runtime import worker_client, worker_process
from tff_partial.runtime.worker_client import WorkerLost

# A worker under load may miss one contact; three in a row mean that it is gone.
_CONTACTS = 3
# A name, an IPv4 address, or an IPv6 address in brackets.
_ADDRESS = re.compile(r"([A-Za-z0-9._-]+|\[[0-9A-Fa-f:.%]+\]):[0-9]{1,5}")


def check_addresses(workers: Sequence[str]) -> None:
    if isinstance(workers, str) or not workers:
        raise ValueError(f"workers must list at least one host:port. Received: {workers=}")
    for address in workers:
        if not _ADDRESS.fullmatch(address) or not 1 <= int(address.rpartition(":")[2]) <= 65535:
            raise ValueError(
                f"workers must be host:port with a port from 1 to 65535. Received: {address!r}"
            )
    repeated = sorted({address for address in workers if list(workers).count(address) > 1})
    if repeated:
        raise ValueError(f"workers must differ. Received twice: {', '.join(repeated)}")


class RemoteWorker:
    """One remote worker, connected or lost."""

    def __init__(self, address: str, timeout: float, compiler_fn: Callable[[Any], Any]) -> None:
        self.address = address
        self.is_ready = False
        self.contact: Optional[concurrent.futures.Future] = None
        self.problem = ""
        self._timeout = timeout
        self._client = worker_client.WorkerClient(compiler_fn)

    def connect(self) -> None:
        channel = worker_process.open_channel(self.address)
        if worker_process.answers(channel, self._timeout):
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
        for _ in range(_CONTACTS):
            with worker_process.open_channel(self.address) as channel:
                if worker_process.answers(channel, self._timeout):
                    return True
        return False
