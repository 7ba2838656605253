"""Prefix: a weak client trains the input-side layers, the opposite of EmbracingFL.

The "first half" of the ablation in Lee et al., Embracing federated learning: enabling weak client
participation via partial model training, 2024, section 3.2, which is InclusiveFL's choice of layers
(Liu et al., No one left behind: inclusive federated learning over heterogeneous devices, 2022):

    for each round t:
        for each client i of the cohort, in parallel:
            y_i <- tau steps of local SGD on the first K - k blocks, through the whole model
        y_{t+1} <- mean of y_i over the clients that trained it, for each layer

A tier that removes k blocks removes the last k; words are not halved. A capacity or a budget
removes as few as make the blocks that are left fit into it (`blocks:k`: into the memory without the
first k).

Differences from the paper: there local models persist and all clients are alike; here clients start
from the global model and tiers may be mixed. InclusiveFL's distillation is not part of it.
"""

from __future__ import annotations

import functools

from tff_partial import costs
from tff_partial.algorithms.declaration import Algorithm
from tff_partial.core.aggregators import AggregatorLike
from tff_partial.core.model import Cut, ModelSpec
from tff_partial.core.types import LearningProcess
from tff_partial.layers import parts
from tff_partial.processes import learning
from tff_partial.tiers import Tier

Params = learning.TieredParams


def build(model: ModelSpec, params: Params, aggregator: AggregatorLike = None) -> LearningProcess:
    """Return the process."""
    size = params.local.batch_size

    def part_fn(tier: Tier) -> learning.PartFn:
        return functools.partial(parts.leading, removed=_removed(model, tier, size))

    return learning.build_tiered_process(model, params, part_fn, aggregator)


def cost(model: ModelSpec, params: Params, tier: Tier) -> costs.ClientCost:
    """Return what a round costs a client of the tier."""
    size = params.local.batch_size
    return costs.prefix(model, _removed(model, tier, size), size)


def _removed(model: ModelSpec, tier: Tier, batch_size: int) -> int:
    blocks = costs.measure(model)
    if tier.is_budget:
        trained = [k for k, block in enumerate(blocks) if block.parameters]
        offered = [Cut(k) for k in range(len(blocks) - trained[0])]
        count = costs.smallest_cut(tier, model, batch_size, offered, _cost_of_cut).blocks
    elif tier.kind == "memory":
        cuts = range(len(blocks))
        fitting = [k for k in cuts if costs.prefix_capacity(model, k, batch_size) <= tier.value]
        count = fitting[0] if fitting else len(blocks)
    else:
        count = costs.cut_of(tier, model, batch_size).blocks
    kept = blocks[: len(blocks) - count]
    if not any(block.parameters for block in kept):
        raise ValueError(
            "a tier of prefix must leave a block with parameters. "
            f"Received: tier={tier.name!r}, which leaves {[block.name for block in kept]}"
        )
    return count


def _cost_of_cut(model: ModelSpec, cut: Cut, batch_size: int) -> costs.ClientCost:
    return costs.prefix(model, cut.blocks, batch_size)


ALGORITHM = Algorithm(
    name="prefix",
    title="weak clients train input-side layers (ablation)",
    paper="embracingfl",
    params=Params,
    build=build,
    cost=cost,
    needs=("tiers",),
)
