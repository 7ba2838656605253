"""Where and how a run is executed: what may change when it is resumed."""

from __future__ import annotations

import contextlib
import dataclasses
from collections.abc import Iterator
from typing import Optional

from tff_partial import runtime
from tff_partial.core import checks
from tff_partial.core.lazy import tff
from tff_partial.experiments import client_store, trackers
from tff_partial.runtime import Context, RayOptions

STATES = ("memory", "disk")


@dataclasses.dataclass(frozen=True)
class Execution:
    """Where and how a run is executed.

    Attributes:
      runtime: Where clients run: in_process, ray, local_cpp or remote.
      workers: Runtime remote: host:port of each worker, separated by commas.
      client_parallelism: Runtime in_process: clients that train at the same time; by default one on
        each device, or on the CPU alone as many as there are cores.
      devices: Runtime in_process: where clients train, such as GPU:0,GPU:1; by default all GPUs, or
        the CPU if there is none.
      ray_address: Runtime ray: host:port of a cluster's head, or auto for the one on this machine;
        a Ray of its own by default.
      ray_actors: Runtime ray: actors, which train one client at a time each; as many as fit by
        default.
      ray_cpus_per_actor: Runtime ray: CPUs, and threads, of an actor.
      ray_gpus_per_actor: Runtime ray: GPUs, or the share of one, of an actor.
      ray_partial_sums: Runtime ray: add up on the actors first, where clients' results are only
        added up; less traffic, and results that are equal up to rounding.
      checkpoint_every: Rounds between checkpoints.
      data_dir: Folder of tensorflow-datasets.
      client_state: Where clients' states are kept between rounds: memory or disk.
      client_state_cache: On disk: number of clients whose state stays in memory; 256 by default.
      trace_cache: Folder where traced graphs are kept, so that later runs start sooner; auto is the
        user's cache folder, none keeps nothing.
      tracker: Also send results to mlflow:FOLDER, mlflow:URI, wandb or wandb:PROJECT.
    """

    runtime: str = "in_process"
    workers: str = ""
    client_parallelism: Optional[int] = None
    devices: str = ""
    ray_address: str = ""
    ray_actors: Optional[int] = None
    ray_cpus_per_actor: float = 1.0
    ray_gpus_per_actor: float = 0.0
    ray_partial_sums: bool = False
    checkpoint_every: int = 10
    data_dir: Optional[str] = None
    client_state: str = "memory"
    client_state_cache: Optional[int] = None
    trace_cache: str = "auto"
    tracker: str = ""

    def __post_init__(self) -> None:
        checks.one_of("runtime", self.runtime, runtime.NAMES)
        checks.one_of("client_state", self.client_state, STATES)
        if self.client_state_cache is not None and self.client_state != "disk":
            raise ValueError(
                "client_state_cache must be given with client_state='disk'. "
                f"Received: client_state={self.client_state!r}"
            )
        if self.tracker:
            trackers.check(self.tracker)
        runtime.check(
            self.runtime, self.addresses, self.client_parallelism, self.device_names, self.ray
        )

    @property
    def addresses(self) -> list[str]:
        """Addresses of the remote workers."""
        return self.workers.split(",") if self.workers else []

    @property
    def device_names(self) -> list[str]:
        """Names of the devices."""
        return self.devices.split(",") if self.devices else []

    @property
    def ray(self) -> RayOptions:
        """How Ray is used."""
        fields = (field.name for field in dataclasses.fields(RayOptions))
        return RayOptions(**{name: getattr(self, f"ray_{name}") for name in fields})

    @property
    def is_elsewhere(self) -> bool:
        """Whether clients may run on other hosts, with folders of their own."""
        return self.runtime == "remote" or bool(self.ray_address)

    @property
    def several_workers(self) -> bool:
        """Whether rounds are spread over several remote workers."""
        return len(self.addresses) > 1

    @property
    def cache(self) -> Optional[int]:
        """Number of clients whose state stays in memory; None for all."""
        if self.client_state == "memory":
            return None
        return self.client_state_cache or client_store.CACHE

    def as_config(self) -> dict[str, object]:
        """Return what config.json says of it."""
        return {
            **dataclasses.asdict(self),
            "workers": self.addresses,
            "devices": self.device_names,
            "client_state_cache": self.client_state_cache or client_store.CACHE,
            "tracker": trackers.without_credentials(self.tracker),
        }

    @contextlib.contextmanager
    def installed(self) -> Iterator[Context]:
        """Make TFF computations run on the runtime as long as the block lasts."""
        context = runtime.create(
            self.runtime, self.addresses, self.client_parallelism, self.device_names, self.ray
        )
        try:
            with tff.framework.get_context_stack().install(context):
                yield context
        finally:
            context.close()
