"""What training costs a client: capacity, operations, bytes; and what a tier leaves out.

    capacity   = (2 p + 2 a) / (2 p_full + 2 a_full)       p parameters, a activations of a batch
    operations = record * examples + steps * (batch_size * (forward + backward) + update)

Capacity is EmbracingFL's (section 4, 'Client Capacity Settings'), operations are counted as in
FedPMT (`block_costs`).

    python -m tff_partial.costs --model=resnet20 --batch_size=32 --tiers=strong,7,0.3

prints a model's costs, beside the papers' figures where they give any. For a model of your own:

    model = model_spec.ModelSpec(create_my_sequential, input_shape=(28, 28, 1))
    for block in block_costs.measure(model):
        print(block)
    cut = costs.cut_of("weak", model, batch_size=32)
    print(costs.whole(model, 32), costs.recorded_suffix(model, cut, 32))
"""

from __future__ import annotations

from tff_partial import command_line

if __name__ == "__main__":
    command_line.end_when_interrupted()  # before imports that take seconds

import dataclasses
import math
import re
import sys
from collections.abc import Sequence
from typing import Optional

from tff_partial import channel_shares
from tff_partial.block_costs import BlockCost, measure
from tff_partial.lazy import tf
from tff_partial.model_spec import ModelSpec
from tff_partial.tiers import Cut

_BYTES = 4
# Largest capacity of the tiers for which a model does not say what they leave out.
_BOUNDS = {"moderate": 0.5, "weak": 0.2}


def capacity(model: ModelSpec, cut: Cut, batch_size: int) -> float:
    """Share of the full model's memory that training the blocks after the cut takes.

    (2 p + 2 a) / (2 p_full + 2 a_full), a at the batch size, or at `model.capacity_batch`. Without
    the first half of the words, the activations of the block after the cut halve.
    """
    return _share(model, _tail(model, cut), batch_size)


def prefix_capacity(model: ModelSpec, removed: int, batch_size: int) -> float:
    """`capacity` of all but the last `removed` blocks."""
    blocks = measure(model)
    return _share(model, blocks[: len(blocks) - removed], batch_size)


def _share(model: ModelSpec, blocks: Sequence[BlockCost], batch_size: int) -> float:
    batch = capacity_batch(model, batch_size)
    return memory(blocks, batch) / memory(measure(model), batch)


def memory(blocks: Sequence[BlockCost], batch_size: int) -> int:
    """2 p + 2 a: parameters and activations, their gradients and errors."""
    return 2 * _sum(blocks, "parameters") + 2 * batch_size * _sum(blocks, "activations")


def capacity_batch(model: ModelSpec, batch_size: int) -> int:
    """The batch size at which capacities are computed."""
    return batch_size if model.capacity_batch is None else model.capacity_batch


def _sum(blocks: Sequence[BlockCost], *fields: str) -> int:
    return sum(getattr(block, field) for block in blocks for field in fields)


def _tail(model: ModelSpec, cut: Cut) -> tuple[BlockCost, ...]:
    """What is after the cut; half of the words are half of everything but the parameters."""
    tail = measure(model)[cut.blocks :]
    if not cut.half:
        return tail
    if not tail[0].halvable:
        raise ValueError(f"half the words must be left out of an LSTM. Received: {tail[0].name!r}")
    halves = {key: getattr(tail[0], key) // 2 for key in ("activations", "forward", "backward")}
    return (dataclasses.replace(tail[0], **halves), *tail[1:])


def cut_of(tier_name: str, model: ModelSpec, batch_size: int) -> Cut:
    """What a tier leaves out.

    Args:
      tier_name: `strong`; `moderate` or `weak`: `model.cuts`, else the smallest cut of capacity at
        most 0.5 or 0.2, or the deepest one; a number of blocks such as `7`; or a capacity such as
        `0.3`: the smallest cut that fits into it. A cut leaves a block with parameters. The first
        half of the words is left out only where `model.cuts` has such a cut.
      model: The model.
      batch_size: At which capacities are computed if `model.capacity_batch` is None.

    Raises:
      ValueError: If it is none of these, or leaves nothing to train, or nothing fits into it.
    """
    if tier_name == "strong":
        return Cut(0)
    cuts = _cuts(model)
    if tier_name in model.cuts:
        return _checked(model.cuts[tier_name], cuts)
    if re.fullmatch(r"\d+", tier_name):
        return _checked(Cut(int(tier_name)), cuts)
    is_capacity = names_capacity(tier_name)
    if not is_capacity and tier_name not in _BOUNDS:
        raise ValueError(
            "tier must be strong, moderate, weak, a number of removed blocks or a capacity below "
            f"1. Received: tier={tier_name!r}"
        )
    bound = float(tier_name) if is_capacity else _BOUNDS[tier_name]
    fitting = [cut for cut in cuts if capacity(model, cut, batch_size) <= bound]
    if is_capacity and not fitting:
        least = math.ceil(10_000 * capacity(model, cuts[-1], batch_size)) / 10_000
        raise ValueError(
            f"a tier's capacity must be at least {least:g} for this model. Received: {tier_name}"
        )
    return fitting[0] if fitting else cuts[-1]


def names_capacity(tier_name: str) -> bool:
    """Whether a tier is given as a capacity, such as `0.3`."""
    return re.fullmatch(r"0?\.\d+", tier_name) is not None


def deepest_cut(model: ModelSpec) -> int:
    """The largest number of blocks that a cut can remove."""
    return _cuts(model)[-1].blocks


def _cuts(model: ModelSpec) -> list[Cut]:
    """All cuts that leave something to train, the smallest first."""
    trained = [k for k, block in enumerate(measure(model)) if block.parameters]
    whole_blocks = {Cut(k) for k in range(max(trained, default=0) + 1)}
    halves = {cut for cut in model.cuts.values() if cut.half and Cut(cut.blocks) in whole_blocks}
    return sorted(whole_blocks | halves, key=dataclasses.astuple)


def _checked(cut: Cut, cuts: Sequence[Cut]) -> Cut:
    if cut not in cuts:
        raise ValueError(
            f"a tier's number of removed blocks must be at most {cuts[-1].blocks} for this model. "
            f"Received: {cut.blocks}"
        )
    return cut


def forward_steps(model: ModelSpec, cut: Cut, batch_size: int) -> list[tuple[int, int]]:
    """Ranges (start, stop) of the blocks before the cut, the steps of EmbracingFL's forward pass.

    p + a of a range, as a forward pass keeps neither gradients nor errors, is at most the 2 p + 2 a
    of what the client trains, unless a single block exceeds it.
    """
    batch = capacity_batch(model, batch_size)
    budget = memory(_tail(model, cut), batch)
    blocks = measure(model)
    ranges: list[tuple[int, int]] = []
    for k in range(cut.blocks):
        start = ranges[-1][0] if ranges else 0
        if ranges and memory(blocks[start : k + 1], batch) // 2 <= budget:
            ranges[-1] = (start, k + 1)
        else:
            ranges.append((k, k + 1))
    return ranges


@dataclasses.dataclass(frozen=True)
class ClientCost:
    """What a client's training costs it.

    Attributes:
      parameters: That it trains.
      activations: Of one example, that it keeps for its backward pass.
      capacity: Share of the full model's memory that what it trains takes.
      record: Operations for each example, once a round.
      forward: Operations of the forward pass for each example of a step.
      backward: Operations of the backward pass for each example of a step.
      update: Operations once a step.
      bytes_down: That it receives in a round, 4 for each number, statistics included.
      bytes_up: That it sends.
    """

    parameters: int
    activations: int
    capacity: float
    record: int
    forward: int
    backward: int
    update: int
    bytes_down: int
    bytes_up: int

    def operations(
        self, steps: int, batch_size: int, examples: int, seen: Optional[int] = None
    ) -> int:
        """Operations of a round with this many local steps and local examples.

        `seen` are the examples of all steps together, where not all batches are full.
        """
        seen = steps * batch_size if seen is None else seen
        passes = seen * (self.forward + self.backward)
        return self.record * examples + passes + steps * self.update

    def with_vectors(self, down: float = 0, up: float = 0) -> ClientCost:
        """The cost if so many vectors more, of a number for each parameter, go down and up."""
        vector = _BYTES * self.parameters
        return dataclasses.replace(
            self,
            bytes_down=self.bytes_down + round(down * vector),
            bytes_up=self.bytes_up + round(up * vector),
        )


def whole(model: ModelSpec, batch_size: int) -> ClientCost:
    """A client that trains everything, as in FedAvg."""
    return backprop_suffix(model, Cut(0), batch_size)


def recorded_suffix(model: ModelSpec, cut: Cut, batch_size: int) -> ClientCost:
    """EmbracingFL: what is before the cut runs forward once a round, the rest trains on that."""
    blocks, tail = measure(model), _tail(model, cut)
    record = _sum(blocks[: cut.blocks], "forward") + (tail[0].first_half if cut.half else 0)
    cost = _trains(model, tail, capacity(model, cut, batch_size))
    return dataclasses.replace(cost, record=record, forward=_sum(tail, "forward"))


def backprop_suffix(model: ModelSpec, cut: Cut, batch_size: int) -> ClientCost:
    """FedPMT: a step runs forward through everything and back through the blocks after the cut.

    `cut.half` is ignored: the forward pass takes all words anyway.
    """
    cut = Cut(cut.blocks)
    return _trains(model, _tail(model, cut), capacity(model, cut, batch_size))


def prefix(model: ModelSpec, removed: int, batch_size: int) -> ClientCost:
    """All but the last `removed` blocks, trained through the whole model.

    The removed blocks pass on the error signal but have no gradients or updates. All activations
    are kept for that, although the capacity is that of the trained blocks alone.
    """
    blocks = measure(model)
    kept = len(blocks) - removed
    cost = _trains(model, blocks[:kept], prefix_capacity(model, removed, batch_size))
    return dataclasses.replace(
        cost,
        activations=_sum(blocks, "activations"),
        backward=cost.backward + _sum(blocks[kept:], "error"),
    )


def narrow(model: ModelSpec, small: ModelSpec, batch_size: int) -> ClientCost:
    """A client that receives, trains and sends a model with fewer channels."""
    batch = capacity_batch(model, batch_size)
    share = memory(measure(small), batch) / memory(measure(model), batch)
    return _trains(small, measure(small), share)


def channels(model: ModelSpec, share: float, batch_size: int) -> ClientCost:
    """A client that trains everything and sends a share of each layer's channels.

    Of the last layer it sends all (channel_shares.py).
    """
    cost = whole(model, batch_size)
    if share == 1:
        return cost
    return dataclasses.replace(cost, bytes_up=_BYTES * _numbers_shared(model, share))


def _numbers_shared(model: ModelSpec, share: float) -> int:
    """Counted once for a `ModelSpec`, as it takes seconds to build a large model."""
    cache = vars(model).setdefault("_numbers_shared", {})
    if share not in cache:
        with tf.Graph().as_default():
            cache[share] = channel_shares.count(model.instantiate(), share)
    return cache[share]


def _trains(model: ModelSpec, trained: Sequence[BlockCost], share: float) -> ClientCost:
    blocks = measure(model)
    return ClientCost(
        parameters=_sum(trained, "parameters"),
        activations=_sum(trained, "activations"),
        capacity=share,
        record=0,
        forward=_sum(blocks, "forward"),
        backward=_sum(trained, "backward"),
        update=_sum(trained, "update"),
        bytes_down=_BYTES * _sum(blocks, "parameters", "statistics"),
        bytes_up=_BYTES * _sum(trained, "parameters", "statistics"),
    )


def average_capacity(counts: Sequence[float], capacities: Sequence[float]) -> float:
    """sum C_i R_i over the tiers, R_i a tier's share of the clients (EmbracingFL, table 3)."""
    return sum(c * count / sum(counts) for c, count in zip(capacities, counts))


if __name__ == "__main__":
    # Not at the top: the tables are made from this module, under its own name.
    from tff_partial import cost_tables

    command_line.run(cost_tables.main, sys.argv[1:])
