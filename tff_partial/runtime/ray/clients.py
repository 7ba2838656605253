"""Spreads what clients do in a level over the actors of a pool."""

from __future__ import annotations

import threading
from collections.abc import Sequence
from typing import Optional

from tff_partial.runtime.in_process import folds
from tff_partial.runtime.in_process.execution import ClientStage, Known, Traced
from tff_partial.runtime.in_process.parallel import Finish
from tff_partial.runtime.in_process.planner import Block, Level, Plan
from tff_partial.runtime.in_process.steps import CLIENTS
from tff_partial.runtime.ray.cohort import Cohort, Memory, RemoteStage
from tff_partial.runtime.ray.messages import Kept
from tff_partial.runtime.ray.pool import Pool
from tff_partial.runtime.ray.store import Store


class RayClients:
    """Clients that run on actors."""

    def __init__(self, pool: Pool, store: Store, partial_sums: bool) -> None:
        self._pool, self._store, self._partial_sums = pool, store, partial_sums
        self._lock = threading.Lock()
        self.memory = Memory()

    def stages(self, block: Block, plan: Plan, traced: Traced) -> list[ClientStage]:
        kept: Optional[Kept] = None
        stages = []
        for number, level in enumerate(plan.levels):
            function, remote = level.clients, None
            if function.steps:
                kept = kept or self._store.computation(block)
                remote = RemoteStage(kept, number, self._partial_sums and _only_sums(level))
            stages.append(ClientStage(function.captures, function.outputs, remote))
        return stages

    def run(
        self, level: Level, known: Known, stages: Sequence[ClientStage], finish: Finish[Known]
    ) -> None:
        if all(stage.function is None for stage in stages):
            for client in range(len(stages)):
                finish(client, {})
            return
        with self._lock:
            self._pool.refresh()
            Cohort(self._pool, self._store, self.memory, level, known, stages, finish).run()


def _only_sums(level: Level) -> bool:
    """Return whether clients' results are added up and used for nothing else."""
    known = set(level.clients.outputs)
    values = [leaf for fold in level.folds for leaf in fold.values]
    return (
        bool(level.folds and not level.kept)
        and all(folds.is_sum(fold.accumulate) for fold in level.folds)
        and all(leaf in known or leaf.region is not CLIENTS for leaf in values)
    )
