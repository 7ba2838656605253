"""FedPMT: back-propagation stops early.

Wu et al., Straggler-resilient federated learning: tackling computation heterogeneity with
layer-wise partial model training in mobile edge network, 2023, algorithm 1. Layers before the
device's mask take part in the forward pass of every step, and get no gradient:

    for each round t:
        option I:  the server sends w_t and f_k to each device k of the cohort
        option II: the server sends w_t and all masks; device k picks f_k by its capability
        for each device k, in parallel:
            tau times:  w_k <- w_k - eta_t * (gradient of F_k at w_k) o f_k
        w_{t+1} <- w_t + sum_k A_k o (w_k - w_t),   A_k[l] = f_k[l] / sum_j f_j[l]

Option I: a tier is a name, or a number of removed blocks: what the server assigns. Option II: a
tier is the computing capability of its devices, and a device picks the largest of the offered masks
that fits into it. A capability is a share such as 0.58 of a whole model's operations; for a name, a
number of removed blocks or a budget it is what training without these blocks takes, so that masks
fit that remove as many or more. A device that no mask fits is an error.

Differences from the paper: devices may be weighted by their examples.
"""

from __future__ import annotations

import dataclasses
import functools

from tff_partial import costs
from tff_partial.algorithms.declaration import Algorithm
from tff_partial.core import checks
from tff_partial.core.aggregators import AggregatorLike
from tff_partial.core.local_training import LocalTraining
from tff_partial.core.model import Cut, ModelSpec
from tff_partial.core.types import LearningProcess
from tff_partial.layers import parts
from tff_partial.processes import learning
from tff_partial.tiers import Tier

OPTIONS = ("server", "device")


@dataclasses.dataclass(frozen=True)
class Params(learning.TieredParams):
    """Hyperparameters of FedPMT.

    Attributes:
      option: Who chooses the trained part: `server` (option I) or `device` (option II).
      masks: What option II offers: numbers of removed blocks such as '0,1,2'; every number that
        the model has if empty.
    """

    local: LocalTraining = dataclasses.field(default_factory=lambda: LocalTraining(epochs=1))
    option: str = "server"
    masks: str = ""

    def __post_init__(self) -> None:
        super().__post_init__()
        checks.one_of("option", self.option, OPTIONS)
        is_list = all(mask.isdigit() for mask in self.masks.split(","))
        if self.masks and (self.option == "server" or not is_list):
            raise ValueError(
                "masks must be numbers of removed blocks such as 0,1,2, for option 'device'. "
                f"Received: option={self.option!r}, masks={self.masks!r}"
            )


def build(model: ModelSpec, params: Params, aggregator: AggregatorLike = None) -> LearningProcess:
    """Return the process."""

    def part_fn(tier: Tier) -> learning.PartFn:
        return functools.partial(parts.stopped, cut=_mask(model, params, tier))

    return learning.build_tiered_process(model, params, part_fn, aggregator)


def cost(model: ModelSpec, params: Params, tier: Tier) -> costs.ClientCost:
    """Return what a round costs a client of the tier."""
    return costs.backprop_suffix(model, _mask(model, params, tier), params.local.batch_size)


def _mask(model: ModelSpec, params: Params, tier: Tier) -> Cut:
    """Return the blocks that a client of the tier leaves out, f_k."""
    if params.option == "device":
        return Cut(_pick(model, params, tier))
    return Cut(_cut_of(tier, model, params.local.batch_size).blocks)


def _cut_of(tier: Tier, model: ModelSpec, batch_size: int) -> Cut:
    return costs.cut_of(tier, model, batch_size, costs.backprop_suffix)


def _pick(model: ModelSpec, params: Params, tier: Tier) -> int:
    """Return the largest of the offered masks that fits, as a number of removed blocks."""
    size, deepest = params.local.batch_size, costs.deepest_cut(model)
    offered = [int(mask) for mask in params.masks.split(",") if mask] or range(deepest + 1)
    if max(offered) > deepest:
        raise ValueError(f"masks must be at most {deepest}. Received: masks={params.masks!r}")
    if tier.is_budget or tier.kind != "memory":
        own = _cut_of(tier, model, size).blocks
        if max(offered) < own:
            raise ValueError(
                f"masks must have one of at least {own} for the tier {tier.name!r}. "
                f"Received: masks={params.masks!r}"
            )
        return min(mask for mask in offered if mask >= own)
    whole = costs.whole(model, size).operations(1, size, size)
    shares = {
        mask: costs.backprop_suffix(model, Cut(mask), size).operations(1, size, size) / whole
        for mask in offered
    }
    # Two decimals, as the paper gives capabilities.
    fitting = [mask for mask, share in shares.items() if round(share, 2) <= tier.value]
    if not fitting:
        raise ValueError(
            f"a capability must be at least {min(shares.values()):.2f}, the share of the smallest "
            f"mask. Received: {tier.name}"
        )
    return min(fitting)


ALGORITHM = Algorithm(
    name="fedpmt",
    title="back-propagation stops early",
    paper="fedpmt",
    params=Params,
    build=build,
    cost=cost,
    needs=("tiers",),
)
