"""What training costs a client: memory, operations and bytes.

    operations = record * examples + steps * (batch_size * (forward + backward) + update)

Operations are counted as in FedPMT (`blocks`), capacity as in EmbracingFL (`cuts`).
"""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from typing import Any, Optional

from tff_partial.core.lazy import tf
from tff_partial.core.model import Cut, ModelSpec
from tff_partial.costs import cuts
from tff_partial.costs.blocks import BlockCost, measure
from tff_partial.layers import channel_masks

_BYTES = 4


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
        """Return the operations of a round with this many local steps and local examples.

        `seen` are the examples of all steps together, where not all batches are full.
        """
        seen = steps * batch_size if seen is None else seen
        passes = seen * (self.forward + self.backward)
        return self.record * examples + passes + steps * self.update

    def with_vectors(self, down: float = 0, up: float = 0) -> ClientCost:
        """Return the cost with more vectors, of a number for each parameter, down and up."""
        vector = _BYTES * self.parameters
        return dataclasses.replace(
            self,
            bytes_down=self.bytes_down + round(down * vector),
            bytes_up=self.bytes_up + round(up * vector),
        )


def whole(model: ModelSpec, batch_size: int) -> ClientCost:
    """Return the cost of a client that trains everything, as in FedAvg."""
    return backprop_suffix(model, Cut(0), batch_size)


def recorded_suffix(model: ModelSpec, cut: Cut, batch_size: int) -> ClientCost:
    """Return EmbracingFL's cost: what precedes the cut runs once a round, the rest trains on it."""
    blocks, tail = measure(model), cuts.after(model, cut)
    record = cuts.total(blocks[: cut.blocks], "forward") + (tail[0].first_half if cut.half else 0)
    cost = _trains(model, tail, cuts.capacity(model, cut, batch_size))
    return dataclasses.replace(cost, record=record, forward=cuts.total(tail, "forward"))


def backprop_suffix(model: ModelSpec, cut: Cut, batch_size: int) -> ClientCost:
    """Return FedPMT's cost: a step runs forward through all, back through what is after the cut.

    `cut.half` is ignored: the forward pass takes all words anyway.
    """
    cut = Cut(cut.blocks)
    return _trains(model, cuts.after(model, cut), cuts.capacity(model, cut, batch_size))


def prefix(model: ModelSpec, removed: int, batch_size: int) -> ClientCost:
    """Return the cost of training all but the last `removed` blocks through the whole model.

    The removed blocks pass on the error signal but have no gradients or updates. All activations
    are kept for that, although the capacity is that of the trained blocks alone.
    """
    blocks = measure(model)
    kept = len(blocks) - removed
    cost = _trains(model, blocks[:kept], cuts.prefix_capacity(model, removed, batch_size))
    return dataclasses.replace(
        cost,
        activations=cuts.total(blocks, "activations"),
        backward=cost.backward + cuts.total(blocks[kept:], "error"),
    )


def between(model: ModelSpec, start: int, stop: int, batch_size: int) -> ClientCost:
    """Return the cost of training some blocks; a step runs forward through all, and back to these.

    The blocks after them pass on the error signal and keep their activations for that. All
    statistics are sent.
    """
    blocks = measure(model)
    after = [dataclasses.replace(block, parameters=0) for block in blocks[stop:]]
    kept = [*blocks[start:stop], *after]
    cost = _trains(model, blocks[start:stop], cuts.share_of_memory(model, kept, batch_size))
    statistics = cuts.total([*blocks[:start], *blocks[stop:]], "statistics")
    return dataclasses.replace(
        cost,
        activations=cuts.total(kept, "activations"),
        backward=cost.backward + cuts.total(after, "error"),
        bytes_up=cost.bytes_up + _BYTES * statistics,
    )


def mean(of_rounds: Sequence[ClientCost]) -> ClientCost:
    """Return the mean cost of rounds that differ; of parameters and memory the largest."""
    largest = ("parameters", "activations", "capacity")

    def of(name: str) -> Any:
        values = [getattr(cost, name) for cost in of_rounds]
        return max(values) if name in largest else round(sum(values) / len(values))

    names = [field.name for field in dataclasses.fields(ClientCost)]
    return ClientCost(**{name: of(name) for name in names})


def narrow(model: ModelSpec, small: ModelSpec, batch_size: int) -> ClientCost:
    """Return the cost of a client whose model has fewer channels."""
    blocks = measure(small)
    return _trains(small, blocks, cuts.share_of_memory(model, blocks, batch_size))


def sparse(model: ModelSpec, masked: int, held: int, batch_size: int) -> ClientCost:
    """Return the cost of a client that holds some of the `masked` elements of the weights.

    It computes as if it had them all, and keeps all activations. With the weights it receives a bit
    for each of the masked ones.
    """
    cost, left_out = whole(model, batch_size), masked - held
    if not left_out:
        return cost
    zeros = dataclasses.replace(measure(model)[0], parameters=left_out, activations=0)
    bytes_up = cost.bytes_up - _BYTES * left_out
    return dataclasses.replace(
        cost,
        parameters=cost.parameters - left_out,
        capacity=1 - cuts.share_of_memory(model, [zeros], batch_size),
        bytes_down=bytes_up + -(-masked // 8),
        bytes_up=bytes_up,
    )


def channels(model: ModelSpec, share: float, batch_size: int) -> ClientCost:
    """Return the cost of a client that sends a share of each layer's channels, and trains all.

    Of the last layer it sends all (channel_masks.py).
    """
    cost = whole(model, batch_size)
    if share == 1:
        return cost
    return dataclasses.replace(cost, bytes_up=_BYTES * _numbers_shared(model, share))


def _numbers_shared(model: ModelSpec, share: float) -> int:
    """Return how many numbers it sends; counted once, as large models take seconds to build."""
    cache = vars(model).setdefault("_numbers_shared", {})
    if share not in cache:
        with tf.Graph().as_default():
            cache[share] = channel_masks.count(model.instantiate(), share)
    return cache[share]


def _trains(model: ModelSpec, trained: Sequence[BlockCost], share: float) -> ClientCost:
    blocks = measure(model)
    return ClientCost(
        parameters=cuts.total(trained, "parameters"),
        activations=cuts.total(trained, "activations"),
        capacity=share,
        record=0,
        forward=cuts.total(blocks, "forward"),
        backward=cuts.total(trained, "backward"),
        update=cuts.total(trained, "update"),
        bytes_down=_BYTES * cuts.total(blocks, "parameters", "statistics"),
        bytes_up=_BYTES * cuts.total(trained, "parameters", "statistics"),
    )


def average_capacity(counts: Sequence[float], capacities: Sequence[float]) -> float:
    """Return sum C_i R_i over tiers, R_i a tier's share of the clients (EmbracingFL, table 3)."""
    return sum(c * count / sum(counts) for c, count in zip(capacities, counts))
