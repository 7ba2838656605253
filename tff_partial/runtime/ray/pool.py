"""The actors of a run: how many, where they are, and new ones for those that are lost."""

from __future__ import annotations

import dataclasses
import math
import os
import sys
import time
from collections.abc import Sequence, Sized
from typing import Any, Optional

import ray

from tff_partial.runtime.errors import WorkersLostError
from tff_partial.runtime.ray.actor import ClientActor, Settings, versions
from tff_partial.runtime.ray.cluster import Cluster
from tff_partial.runtime.ray.messages import Introduction, Reference
from tff_partial.runtime.ray.options import RayOptions
from tff_partial.runtime.ray.schedule import Home

# Seconds: for the first actors, which import TensorFlow, and for one when none is left.
_START, _LAST = 180.0, 60.0
_LOOK = 1.0  # at the cluster's nodes, at most so often
# What TensorFlow reads, and what changes results.
_ENVIRONMENT = ("TF_CPP_MIN_LOG_LEVEL", "TF_ENABLE_ONEDNN_OPTS", "TF_DETERMINISTIC_OPS")


@dataclasses.dataclass(frozen=True, eq=False)
class Member:
    """An actor that is ready."""

    handle: Any
    home: Home
    introduction: Introduction


class Pool:
    """Keeps as many actors as were asked for, or as fit."""

    def __init__(self, options: RayOptions, cluster: Cluster) -> None:
        """Start actors and wait for them.

        Raises:
          WorkersLostError: If none can be started, or one has other versions than this process.
        """
        self._options, self._cluster = options, cluster
        environment = {name: os.environ[name] for name in _ENVIRONMENT if name in os.environ}
        settings = Settings(options.threads, options.gpus_per_actor > 0, environment)
        actor_class = ray.remote(
            num_cpus=options.cpus_per_actor,
            num_gpus=options.gpus_per_actor,
            max_restarts=0,  # those that are lost are replaced here
            max_task_retries=0,
            scheduling_strategy="SPREAD",
        )(ClientActor)
        self._create = lambda: actor_class.remote(settings)
        self._versions = versions()
        self.members: list[Member] = []
        self._starting: dict[Reference, Any] = {}
        self._looked = -math.inf
        self._wanted = 0
        self._await_first()

    @property
    def starting(self) -> list[Reference]:
        """References that are ready when a new actor is."""
        return list(self._starting)

    def place(self) -> str:
        """Return how many actors are ready, and on how many nodes."""
        nodes = {member.home.node for member in self.members}
        return f"{_count(self.members, 'actor')} on {_count(nodes, 'node')}"

    def refresh(self) -> None:
        """Ask for actors that are missing, take those that are ready; wait if there is none.

        Raises:
          WorkersLostError: If no actor is left and none can be started.
        """
        if time.monotonic() - self._looked > _LOOK:
            self._looked = time.monotonic()
            self._cluster.check()
            self._wanted = self._options.actors or max(1, self._capacity())
        while len(self.members) + len(self._starting) < self._wanted:
            self._start_one()
        self.admit(0)
        if not self.members:
            self.await_one()

    def admit(self, timeout: float, least: int = 1) -> None:
        """Take actors that are ready within some seconds."""
        if not self._starting:
            return
        refs = self.starting
        ready, _ = ray.wait(refs, num_returns=min(least, len(refs)), timeout=timeout)
        for reference in ready:
            self.take(reference)

    def take(self, reference: Reference) -> None:
        """Take an actor whose reference is ready; the next round replaces one that failed."""
        handle = self._starting.pop(reference)
        try:
            introduction = ray.get(reference)
        except ray.exceptions.RayError as error:
            self._problem = reason(error)
            return
        if introduction.versions != self._versions:
            raise WorkersLostError(
                f"actors must have this process's versions, {_listed(self._versions)}. Received: "
                f"{_listed(introduction.versions)} on {introduction.host}"
            )
        home = Home(handle._actor_id.binary(), introduction.node)
        self.members.append(Member(handle, home, introduction))

    def lose(self, member: Member) -> None:
        """Replace an actor that is lost."""
        if member in self.members:
            self.members.remove(member)
            ray.kill(member.handle)
            self._start_one()

    def await_one(self) -> None:
        """Wait until an actor is ready when none is.

        Raises:
          WorkersLostError: If that takes too long.
        """
        end = time.monotonic() + _LAST
        while not self.members:
            if time.monotonic() > end:
                raise WorkersLostError(f"no Ray actor is left: {self._why_none()}")
            if not self._starting:
                self._start_one()
            self.admit(1.0)
            self._cluster.check()

    def check(self) -> None:
        """Raise a WorkersLostError if the cluster's head is gone."""
        self._cluster.check()

    def close(self) -> None:
        """End the actors; those of a cluster whose head is gone end by themselves."""
        if not self._cluster.is_lost:
            for handle in (*(m.handle for m in self.members), *self._starting.values()):
                ray.kill(handle)
        self.members.clear()
        self._starting.clear()

    def _await_first(self) -> None:
        self._problem = ""
        self._wanted = self._options.actors or max(1, self._capacity())
        for _ in range(self._wanted):
            self._start_one()
        fitting = min(self._wanted, self._free())
        end = time.monotonic() + _START
        while len(self.members) < max(1, fitting):
            if time.monotonic() > end or self._problem or not fitting:
                break
            self.admit(1.0)
            self._cluster.check()
        if not self.members:
            raise WorkersLostError(f"no Ray actor could be started: {self._why_none()}")
        if len(self.members) < self._wanted:
            missing = f"{len(self.members)} of {self._wanted} actors have started"
            print(f"warning: {missing}; others are used as soon as they fit", file=sys.stderr)

    def _start_one(self) -> None:
        handle = self._create()
        self._starting[handle.introduce.remote()] = handle

    def _capacity(self) -> int:
        """Return how many actors the nodes hold."""
        nodes = [node["Resources"] for node in ray.nodes() if node["Alive"]]
        return sum(self._fitting(resources) for resources in nodes)

    def _free(self) -> int:
        """Return how many actors fit at most into what is free now."""
        return self._fitting(ray.available_resources())

    def _fitting(self, resources: Any) -> int:
        needs = {"CPU": self._options.cpus_per_actor, "GPU": self._options.gpus_per_actor}
        # A share of a GPU has to fit into one: 0.6 fits once into each.
        return min(_times(resources.get(name, 0), need) for name, need in needs.items() if need)

    def _why_none(self) -> str:
        if self._problem:
            return self._problem
        options, total = self._options, ray.cluster_resources()
        return (
            f"an actor needs {options.cpus_per_actor:g} CPUs and {options.gpus_per_actor:g} GPUs, "
            f"the cluster has {total.get('CPU', 0):g} and {total.get('GPU', 0):g}, "
            "some of them perhaps in use"
        )


def _count(things: Sized, name: str) -> str:
    return f"{len(things)} {name}{'' if len(things) == 1 else 's'}"


def _times(available: float, need: float) -> int:
    """Return how often a need fits; a share of a GPU, or of a CPU, fits into one of them."""
    if need < 1:
        return math.floor(available) * math.floor(1 / need + 1e-9)
    return math.floor(available / need + 1e-9)


def _listed(versions: Sequence[tuple[str, str]]) -> str:
    return ", ".join(f"{name} {version}" for name, version in versions)


def reason(error: Optional[BaseException]) -> str:
    """Return the line of an error of Ray that says what happened."""
    lines = [line.strip() for line in str(error).splitlines() if line.strip()]
    return lines[-1] if lines else type(error).__name__
