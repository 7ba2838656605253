"""Channel: a weak client's update counts for some of the channels of every layer.

The channel-wise scheme of the ablation in Lee et al., Embracing federated learning: enabling weak
client participation via partial model training, 2024, section 3.2, which synchronises half of the
channels at every layer:

    for each round t:
        for each client i of the cohort, in parallel:
            w_i <- tau steps of local SGD on the whole model
        each channel <- mean over the clients that share it

A strong client shares all channels, any other the first ceil(share * m) of the m of a layer. The
last layer is shared whole (layers.channel_masks).

Differences from the paper: there local models persist and all clients are alike; here clients start
from the global model and tiers may be mixed.
"""

from __future__ import annotations

import dataclasses
import functools

from tff_partial import costs
from tff_partial.algorithms.declaration import Algorithm
from tff_partial.core.aggregators import AggregatorLike
from tff_partial.core.model import Model, ModelSpec
from tff_partial.core.types import LearningProcess
from tff_partial.layers import channel_masks, parts
from tff_partial.processes import learning
from tff_partial.tiers import Tier


@dataclasses.dataclass(frozen=True)
class Params(learning.TieredParams):
    """Hyperparameters of the channel-wise ablation.

    Attributes:
      share: Share of a layer's channels that counts, for tiers that are not strong.
    """

    share: float = 0.5

    def __post_init__(self) -> None:
        super().__post_init__()
        if not 0 < self.share <= 1:
            raise ValueError(f"share must be in (0, 1]. Received: share={self.share}")


def build(model: ModelSpec, params: Params, aggregator: AggregatorLike = None) -> LearningProcess:
    """Return the process."""

    def part_fn(tier: Tier) -> learning.PartFn:
        return functools.partial(_part, share=_share(params, tier))

    return learning.build_tiered_process(model, params, part_fn, aggregator)


def cost(model: ModelSpec, params: Params, tier: Tier) -> costs.ClientCost:
    """Return what a round costs a client of the tier."""
    return costs.channels(model, _share(params, tier), params.local.batch_size)


def _share(params: Params, tier: Tier) -> float:
    return 1.0 if tier.is_whole else params.share


def _part(model: Model, share: float) -> parts.Part:
    masks = channel_masks.masks(model, share)
    return parts.everything(model)._replace(weight=lambda variable: masks[id(variable)])


ALGORITHM = Algorithm(
    name="channel",
    title="weak clients share half of the channels (ablation)",
    paper="embracingfl",
    params=Params,
    build=build,
    cost=cost,
    needs=("tiers",),
)
