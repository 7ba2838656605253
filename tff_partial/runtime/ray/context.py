"""The context that runs what clients do on Ray actors, and all else in this process."""

from __future__ import annotations

from typing import Optional

from tff_partial.core.types import Row
from tff_partial.runtime.in_process import devices
from tff_partial.runtime.in_process.context import InProcessContext
from tff_partial.runtime.ray.clients import RayClients
from tff_partial.runtime.ray.cluster import Cluster
from tff_partial.runtime.ray.options import RayOptions
from tff_partial.runtime.ray.pool import Pool
from tff_partial.runtime.ray.store import Store


class RayContext(InProcessContext):
    """Runs what clients do on Ray actors; results equal those of `InProcessContext`, bit for bit.

    With `partial_sums` they are equal up to rounding.
    """

    def __init__(self, options: Optional[RayOptions] = None) -> None:
        """Start Ray, or connect to it, and start actors.

        Raises:
          ValueError: If Ray is not installed, or actors have other versions than this process.
          WorkersLostError: If there is no cluster, or no actor can be started.
        """
        import ray

        super().__init__(client_parallelism=1, device=devices.CPU)
        self.options = options or RayOptions()
        self._cluster = Cluster(self.options)
        try:
            self._pool = Pool(self.options, self._cluster)
        except BaseException:
            self._cluster.close()
            raise
        self._store = Store(ray.put)
        self._clients = self._ray_clients = RayClients(
            self._pool, self._store, self.options.partial_sums
        )

    def close(self) -> None:
        """End the actors, and Ray if it was started here."""
        super().close()
        self._store.clear()
        self._pool.close()
        self._cluster.close()
