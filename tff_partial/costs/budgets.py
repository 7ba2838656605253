"""Budgets: the most that a client of an algorithm can train with what its tier has.

| tier           | what a client may take of the whole model                                      |
|----------------|--------------------------------------------------------------------------------|
| `memory:0.25`  | a quarter of its memory: of its parameters and activations, twice each (`cuts`) |
| `compute:0.25` | a quarter of the operations of a local step                                    |
| `params:0.25`  | a quarter of its parameters                                                    |
| `rate:0.25`    | the memory of a quarter of the channels of every layer                         |
| `blocks:3`     | the memory without its first three blocks                                      |

What a client does once a round with each example (EmbracingFL's recording, FedDSE's inference)
counts for the examples of one step.

An algorithm with sub-models takes the largest rate that fits, one that leaves out blocks the
smallest cut; where nothing fits, the smallest that it has. A rate stays a rate for sub-models, and
a number of blocks one for cuts at the model's beginning.
"""

from __future__ import annotations

import bisect
import math
from collections.abc import Sequence
from typing import Callable

from tff_partial.core.model import Cut, ModelSpec
from tff_partial.costs import clients, cuts
from tff_partial.costs.clients import ClientCost
from tff_partial.submodels import groups, narrowing
from tff_partial.tiers import Tier

_ROUNDING = 1e-12


def shares(cost: ClientCost, whole: ClientCost, batch_size: int) -> dict[str, float]:
    """Return the shares of what the whole model takes: `memory`, `compute` and `params`."""
    step = (1, batch_size, batch_size)
    return {
        "memory": cost.capacity,
        "compute": cost.operations(*step) / max(whole.operations(*step), 1),
        "params": cost.parameters / whole.parameters,
    }


def limit(tier: Tier, model: ModelSpec, batch_size: int) -> tuple[str, float]:
    """Return what is limited by a budget, a key of `shares`, and the largest share.

    Raises:
      ValueError: If the model has no such cut, or its channels cannot be left out.
    """
    if tier.kind == "blocks":
        return "memory", cuts.capacity(model, cuts.checked(Cut(int(tier.value)), model), batch_size)
    if tier.kind == "rate":
        channels = groups.analyse(model)
        sizes = narrowing.sizes(channels, narrowing.rates(channels, tier.value))
        small = narrowing.create(model, sizes)
        return "memory", clients.narrow(model, small, batch_size).capacity
    return tier.kind, tier.value


def cut_of(
    tier: Tier,
    model: ModelSpec,
    batch_size: int,
    cost: Callable[[ModelSpec, Cut, int], ClientCost] = clients.recorded_suffix,
) -> Cut:
    """Return what a tier leaves out, of a budget the smallest cut whose `cost` fits.

    Raises:
      ValueError: As `cuts.cut_of` and `limit`.
    """
    if not tier.is_budget or tier.kind == "blocks":
        return cuts.cut_of(tier, model, batch_size)
    return smallest_cut(tier, model, batch_size, cuts.all_cuts(model), cost)


def smallest_cut(
    tier: Tier,
    model: ModelSpec,
    batch_size: int,
    offered: Sequence[Cut],
    cost: Callable[[ModelSpec, Cut, int], ClientCost],
) -> Cut:
    """Return the first of the cuts, the smallest first, that fits a budget; else the last."""
    kind, most = limit(tier, model, batch_size)
    whole = clients.whole(model, batch_size)

    def fits(cut: Cut) -> bool:
        return shares(cost(model, cut, batch_size), whole, batch_size)[kind] <= most + _ROUNDING

    return next((cut for cut in offered if fits(cut)), offered[-1])


def rate_of(
    tier: Tier, model: ModelSpec, batch_size: int, cost: Callable[[float], ClientCost]
) -> float:
    """Return the rate of a tier, of a budget the largest whose `cost` fits, else the smallest.

    Rates are those at which a group of channels gains one.

    Raises:
      ValueError: As `Tier.rate` and `limit`.
    """
    if not tier.is_budget or tier.kind == "rate":
        return tier.rate
    kind, most = limit(tier, model, batch_size)
    whole = clients.whole(model, batch_size)
    sizes = {group.size for group in groups.analyse(model).groups}
    rates = sorted({k / size for size in sizes for k in range(1, size + 1)} | {1.0})
    return _largest(rates, lambda rate: shares(cost(rate), whole, batch_size)[kind], most)


def _largest(rates: Sequence[float], share: Callable[[float], float], most: float) -> float:
    """Return the largest of the rates, in ascending order, whose share is at most so much.

    Shares grow like a power of the rate, which the last one that was computed tells; every third
    guess halves what is left. To compute one means to build the model of that rate.
    """
    if most >= 1:
        return rates[-1]
    low, high, guess, guesses = -1, len(rates) - 1, most, 0
    while high - low > 1:
        guesses += 1
        place = bisect.bisect_right(rates, guess) - 1 if guesses % 3 else (low + high) // 2
        place = min(max(place, low + 1), high - 1)
        found = share(rates[place])
        low, high = (place, high) if found <= most + _ROUNDING else (low, place)
        power = math.log(found) / math.log(rates[place])
        guess = most ** (1 / power) if power > 0 else rates[place]
    return rates[max(low, 0)]
