"""How a run uses Ray. Imports no Ray, so that wrong options are refused at once."""

from __future__ import annotations

import dataclasses
import importlib.util
import math
from typing import Optional

INSTALL = "install it with `make ray` (docs/install.md)"


@dataclasses.dataclass(frozen=True)
class RayOptions:
    """How a run uses Ray.

    Attributes:
      address: Of a running cluster: host:port of its head, or auto for the one on this machine. A
        Ray of its own is started, on loopback, where it is empty.
      actors: Number of actors, which train one client at a time each; as many as fit by default.
      cpus_per_actor: CPUs that Ray sets aside for an actor, which has so many threads.
      gpus_per_actor: GPUs, or the share of one, that an actor has; it trains on the CPU with 0.
      partial_sums: Whether actors add up their clients' results before they send them.
    """

    address: str = ""
    actors: Optional[int] = None
    cpus_per_actor: float = 1.0
    gpus_per_actor: float = 0.0
    partial_sums: bool = False

    def __post_init__(self) -> None:
        if self.address not in ("", "auto"):
            from tff_partial.runtime.workers import contact

            try:
                contact.check_addresses([self.address])
            except ValueError:
                raise ValueError(
                    f"ray_address must be auto or host:port. Received: {self.address!r}"
                ) from None
        if self.actors is not None and self.actors < 1:
            raise ValueError(f"ray_actors must be at least 1. Received: ray_actors={self.actors}")
        if not (self.cpus_per_actor > 0 and math.isfinite(self.cpus_per_actor)):
            raise ValueError(
                "ray_cpus_per_actor must be positive. "
                f"Received: ray_cpus_per_actor={self.cpus_per_actor}"
            )
        # Ray shares one GPU, or gives whole ones.
        gpus = self.gpus_per_actor
        if not (0 <= gpus <= 1 or (math.isfinite(gpus) and gpus > 1 and gpus == int(gpus))):
            raise ValueError(
                "ray_gpus_per_actor must be from 0 to 1, or a whole number. "
                f"Received: ray_gpus_per_actor={gpus}"
            )

    @property
    def threads(self) -> int:
        """How many threads an actor has."""
        return max(1, math.floor(self.cpus_per_actor))


def check_installed() -> None:
    """Raise a ValueError that says what to install if Ray is not there."""
    if importlib.util.find_spec("ray") is None:
        raise ValueError(f"runtime='ray' needs Ray: {INSTALL}. Received: no package ray")
