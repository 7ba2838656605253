"""The context that runs what clients do on Ray actors, and all else in this process."""

from __future__ import annotations

from typing import Optional

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
          ValueError: If Ray is not installed, or in use by this process already.
          WorkersLostError: If there is no cluster, or no actor of the same versions.
        """
        import ray

        super().__init__(client_parallelism=1, devices=["CPU:0"])
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

    def place(self) -> str:
        """Return where clients run now, such as `8 actors on 2 nodes`."""
        return self._pool.place()

    def taken_part(self) -> dict[str, int]:
        """Return how many actors and nodes took part since this was last asked."""
        used = self._ray_clients.memory.used
        counts = {"actors": len(used), "nodes": len({home.node for home in used})}
        used.clear()
        return counts

    @property
    def bytes_put(self) -> int:
        """How many bytes this process has put into the object store."""
        return self._store.bytes_put

    @property
    def processes(self) -> list[int]:
        """The actors' processes, each on its own host."""
        return [member.introduction.process for member in self._pool.members]

    def notes(self, data_bytes: int) -> list[str]:
        """Return what a user should know before a run with so many bytes of clients' data."""
        lines = [f"Ray: {self.place()}, {self._cluster.kind}"]
        if self._cluster.dashboard:
            lines.append(f"Ray's dashboard: {self._cluster.dashboard}")
        room = self._cluster.store_bytes()
        if data_bytes > room:
            lines.append(
                f"warning: clients' data take up to {data_bytes / 1e9:.1f} GB, this node's object "
                f"store has {room / 1e9:.1f}; the rest goes to disk. {self._cluster.more_room()}"
            )
        return lines

    def close(self) -> None:
        """End the actors, and Ray if it was started here."""
        super().close()
        self._store.clear()
        self._pool.close()
        self._cluster.close()
