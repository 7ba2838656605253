"""Which cut a tier makes, and how much memory is left to train after it.

    capacity = (2 p + 2 a) / (2 p_full + 2 a_full)       p parameters, a activations of a batch

This is EmbracingFL's definition (section 4, 'Client Capacity Settings').
"""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Sequence

from tff_partial.core.model import Cut, ModelSpec
from tff_partial.costs.blocks import BlockCost, measure
from tff_partial.tiers import Tier

# Largest capacity of the tiers for which a model does not say what they leave out.
_BOUNDS = {"moderate": 0.5, "weak": 0.2}


def capacity(model: ModelSpec, cut: Cut, batch_size: int) -> float:
    """Return the share of the full model's memory that training the blocks after the cut takes.

    (2 p + 2 a) / (2 p_full + 2 a_full), a at the batch size, or at `model.capacity_batch`. Without
    the first half of the words, the activations of the block after the cut halve.
    """
    return share_of_memory(model, after(model, cut), batch_size)


def prefix_capacity(model: ModelSpec, removed: int, batch_size: int) -> float:
    """Return the `capacity` of all but the last `removed` blocks."""
    blocks = measure(model)
    return share_of_memory(model, blocks[: len(blocks) - removed], batch_size)


def share_of_memory(model: ModelSpec, blocks: Sequence[BlockCost], batch_size: int) -> float:
    batch = capacity_batch(model, batch_size)
    return memory(blocks, batch) / memory(measure(model), batch)


def memory(blocks: Sequence[BlockCost], batch_size: int) -> int:
    """Return 2 p + 2 a: parameters and activations, their gradients and errors."""
    return 2 * total(blocks, "parameters") + 2 * batch_size * total(blocks, "activations")


def capacity_batch(model: ModelSpec, batch_size: int) -> int:
    """Return the batch size at which capacities are computed."""
    return batch_size if model.capacity_batch is None else model.capacity_batch


def total(blocks: Sequence[BlockCost], *fields: str) -> int:
    return sum(getattr(block, field) for block in blocks for field in fields)


def after(model: ModelSpec, cut: Cut) -> tuple[BlockCost, ...]:
    """Return what is after the cut; half of the words are half of everything but the parameters."""
    tail = measure(model)[cut.blocks :]
    if not cut.half:
        return tail
    if not tail[0].halvable:
        raise ValueError(f"half the words must be left out of an LSTM. Received: {tail[0].name!r}")
    halves = {key: getattr(tail[0], key) // 2 for key in ("activations", "forward", "backward")}
    return (dataclasses.replace(tail[0], **halves), *tail[1:])


def cut_of(tier: Tier, model: ModelSpec, batch_size: int) -> Cut:
    """Return what a tier leaves out.

    `strong`: nothing; `moderate` or `weak`: `model.cuts`, else the smallest cut of capacity at most
    0.5 or 0.2, or the deepest one; a number of blocks; or for a capacity, the smallest cut that
    fits into it. A cut leaves a block with parameters. The first half of the words is left out
    only where `model.cuts` has such a cut.

    Raises:
      ValueError: If it is a rate, or leaves nothing to train, or nothing fits into it.
    """
    if tier.name == "strong":
        return Cut(0)
    if tier.name in model.cuts:
        return checked(model.cuts[tier.name], model)
    if tier.kind == "blocks":
        return checked(Cut(int(tier.value)), model)
    if tier.kind == "rate":
        raise ValueError(
            "tier must be strong, moderate, weak, a number of removed blocks or a capacity below "
            f"1. Received: tier={tier.name!r}"
        )
    cuts = all_cuts(model)
    bound = _BOUNDS.get(tier.name, tier.value)
    fitting = [cut for cut in cuts if capacity(model, cut, batch_size) <= bound]
    if tier.kind == "memory" and not fitting:
        least = math.ceil(10_000 * capacity(model, cuts[-1], batch_size)) / 10_000
        raise ValueError(
            f"a tier's capacity must be at least {least:g} for this model. Received: {tier.name}"
        )
    return fitting[0] if fitting else cuts[-1]


def deepest_cut(model: ModelSpec) -> int:
    """Return the largest number of blocks that a cut can remove."""
    return all_cuts(model)[-1].blocks


def all_cuts(model: ModelSpec) -> list[Cut]:
    """Return all cuts that leave something to train, the smallest first."""
    trained = [k for k, block in enumerate(measure(model)) if block.parameters]
    whole_blocks = {Cut(k) for k in range(max(trained, default=0) + 1)}
    halves = {cut for cut in model.cuts.values() if cut.half and Cut(cut.blocks) in whole_blocks}
    return sorted(whole_blocks | halves, key=dataclasses.astuple)


def checked(cut: Cut, model: ModelSpec) -> Cut:
    """Return the cut; raise a ValueError if the model has no such cut."""
    cuts = all_cuts(model)
    if cut not in cuts:
        raise ValueError(
            f"a tier's number of removed blocks must be at most {cuts[-1].blocks} for this model. "
            f"Received: {cut.blocks}"
        )
    return cut


def forward_steps(model: ModelSpec, cut: Cut, batch_size: int) -> list[tuple[int, int]]:
    """Return (start, stop) of blocks before the cut: the steps of EmbracingFL's forward pass.

    p + a of a range, as a forward pass keeps neither gradients nor errors, is at most the 2 p + 2 a
    of what the client trains, unless a single block exceeds it.
    """
    batch = capacity_batch(model, batch_size)
    budget = memory(after(model, cut), batch)
    blocks = measure(model)
    ranges: list[tuple[int, int]] = []
    for k in range(cut.blocks):
        start = ranges[-1][0] if ranges else 0
        if ranges and memory(blocks[start : k + 1], batch) // 2 <= budget:
            ranges[-1] = (start, k + 1)
        else:
            ranges.append((k, k + 1))
    return ranges
