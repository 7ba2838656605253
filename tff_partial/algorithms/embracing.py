"""EmbracingFL: a weak client trains the output-side layers on recorded activations.

Lee et al., Embracing federated learning: enabling weak client participation via partial model
training, 2024. With x = (y, z), z being what the client's tier trains:

    for each round t:
        for each client i of the cohort, in parallel:
            D_i <- MultiStepForwardPass(y_t, D_i)          (layers.recorded; strong: none)
            z_i <- tau steps of local SGD from z_t on D_i
        z_{t+1} <- mean of z_i over the clients that trained it, for each layer
    a layer that nobody trained stays as it was

Differences from the paper: more than two tiers at a time, each with its own cut (as in its
experiments). Left open there: batch norm in the recorded layers uses the `moving` statistics, or
those of the `batch`; examples are augmented once a round, when they are recorded.
"""

from __future__ import annotations

import dataclasses
import functools

from tff_partial import costs
from tff_partial.algorithms.declaration import Algorithm
from tff_partial.core import checks
from tff_partial.core.aggregators import AggregatorLike
from tff_partial.core.model import ModelSpec
from tff_partial.core.types import LearningProcess
from tff_partial.layers import parts, recorded
from tff_partial.processes import learning
from tff_partial.tiers import Tier


@dataclasses.dataclass(frozen=True)
class Params(learning.TieredParams):
    """Hyperparameters of EmbracingFL.

    Attributes:
      head_statistics: Batch norm in the recorded layers uses `moving` statistics or the `batch`'s.
      record_dir: Folder to spill the recorded activations to; in memory if empty.
    """

    head_statistics: str = "moving"
    record_dir: str = ""

    def __post_init__(self) -> None:
        super().__post_init__()
        checks.one_of("head_statistics", self.head_statistics, recorded.STATISTICS)


def build(model: ModelSpec, params: Params, aggregator: AggregatorLike = None) -> LearningProcess:
    """Return the process."""
    size = params.local.batch_size

    def part_fn(tier: Tier) -> learning.PartFn:
        cut = costs.cut_of(tier, model, size)
        return functools.partial(
            parts.recorded,
            cut=cut,
            steps=costs.forward_steps(model, cut, size),
            batch_size=size,
            statistics=params.head_statistics,
            folder=params.record_dir,
            precision=params.local.record_precision,
        )

    return learning.build_tiered_process(model, params, part_fn, aggregator)


def cost(model: ModelSpec, params: Params, tier: Tier) -> costs.ClientCost:
    """Return what a round costs a client of the tier."""
    size = params.local.batch_size
    return costs.recorded_suffix(model, costs.cut_of(tier, model, size), size)


ALGORITHM = Algorithm(
    name="embracing",
    title="weak clients train output-side layers on recorded activations",
    paper="embracingfl",
    params=Params,
    build=build,
    cost=cost,
    needs=("tiers",),
)
