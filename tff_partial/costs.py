"""What training costs a client: parameters, activations, capacity, operations, bytes, seconds.

    capacity   = (2 p + 2 a) / (2 p_full + 2 a_full)       p parameters, a activations of a batch
    operations = record * examples + steps * (batch_size * (forward + backward) + update)
    seconds    = full_seconds * operations / full_operations / speed

Capacity is EmbracingFL's (section 4, 'Client Capacity Settings'), operations are counted as in
FedPMT (section V-A), with n neurons, s x s filters and m x m outputs of a convolution:

| layer                | forward                     | error signal   | gradient     | a batch    |
|----------------------|-----------------------------|----------------|--------------|------------|
| dense, hidden        | n * n_prev + n              | n + n * n_next | n * n_prev   | n * n_prev |
| dense, else          | n * n_prev + n              | 2 n            | n * n_prev   | n * n_prev |
| convolution          | n_prev * s^2 * n * m^2      | the same       | the same     | 0          |
| LSTM, each direction | steps * (4 n (in + n) + 4n) | the same       | the same     | 0          |
| embedding            | 0                           | 0              | length * dim | 0          |

`hidden` is a dense layer that another dense layer follows. Everything else counts 0, and so do
layers of unknown kinds, but for their parameters. The rows of LSTM and embedding are not from the
paper.

    python -m tff_partial.costs --model=resnet20 --batch_size=32 --tiers=strong,7,0.3

prints a model's costs, beside the papers' figures where they give any. For a model of your own:

    model = model_spec.ModelSpec(create_my_sequential, input_shape=(28, 28, 1))
    for block in costs.measure(model):
        print(block)
    cut = costs.cut_of("weak", model, batch_size=32)
    print(costs.whole(model, 32), costs.recorded_suffix(model, cut, 32))
"""

from __future__ import annotations

import argparse
import collections
import dataclasses
import functools
import json
import math
import os
import re
import sys
import types
from collections.abc import Mapping, Sequence
from typing import Any, Callable, NamedTuple, NoReturn, Optional, Union

import numpy as np

import models
from tff_partial import tiers as tiers_lib
from tff_partial.lazy import tf
from tff_partial.model_spec import ModelSpec
from tff_partial.tiers import Cut

_BYTES = 4
# Largest capacity of the tiers for which a model does not say what they leave out.
_BOUNDS = {"moderate": 0.5, "weak": 0.2}


@dataclasses.dataclass(frozen=True)
class BlockCost:
    """What a block costs; operations and activations are those of one example.

    Attributes:
      name: The block's name.
      parameters: Trainable numbers.
      statistics: Other numbers, such as moving means.
      activations: Outputs of convolutions and dense layers (but not of a single neuron), 10 numbers
        for each unit, step and direction of an LSTM.
      forward: Operations of the forward pass.
      backward: Operations of the backward pass: error signal and gradient.
      error: Those of `backward` that pass on the error signal.
      update: Operations of the weights' update, once a batch.
      first_half: Operations that run the first half of the words through its forward LSTM.
    """

    name: str
    parameters: int
    statistics: int
    activations: int
    forward: int
    backward: int
    error: int
    update: int
    first_half: int

    @property
    def halvable(self) -> bool:
        """Whether it has an LSTM, which can leave out the first half of the words."""
        return self.first_half > 0


class _Call(NamedTuple):
    """One use of a layer, with the shapes for a batch of one example."""

    layer: Any
    inputs: Any
    outputs: Any


# (call, the next one or None) -> what it adds to the fields of its block's cost.
_Rule = Callable[[_Call, Any], dict[str, int]]


def measure(model: ModelSpec) -> tuple[BlockCost, ...]:
    """The costs of each block, computed once for a `ModelSpec`.

    Raises:
      ValueError: If the shape of a layer's output is not known before it runs.
    """
    cache = vars(model)
    if "_block_costs" not in cache:
        cache["_block_costs"] = _measure(model)
    return cache["_block_costs"]


def _measure(model: ModelSpec) -> tuple[BlockCost, ...]:
    with tf.Graph().as_default():
        built = model.instantiate()
        calls: list[_Call] = []
        layers = {id(m): m for block in built.blocks for m in (block, *block.submodules)}
        for layer in layers.values():
            if _rule(layer):
                layer.call = _recorded(layer, calls)
        # No constant: shapes that depend on the values must stay unknown.
        example = tf.compat.v1.placeholder(model.input_dtype, [1, *model.input_shape])
        x = built.preprocess(example)
        ends = [0]
        for block in built.blocks:
            x = built.forward(x, training=False, blocks=[block])
            ends.append(len(calls))
        counts = [
            collections.Counter(_rule(call.layer)(call, following))
            for call, following in zip(calls, [*calls[1:], None])
        ]
        return tuple(
            _block_cost(block, counts[start:stop])
            for block, start, stop in zip(built.blocks, ends, ends[1:])
        )


def _recorded(layer: Any, calls: list[_Call]) -> Callable[..., Any]:
    """The layer's `call`, which also appends to `calls`."""
    call = layer.call

    @functools.wraps(call)
    def recorded(inputs: Any, *args: Any, **kwargs: Any) -> Any:
        outputs = call(inputs, *args, **kwargs)
        first = [tf.nest.flatten(tensors)[0].shape for tensors in (inputs, outputs)]
        calls.append(_Call(layer, *first))
        return outputs

    return recorded


def _block_cost(block: Any, counts: Sequence[collections.Counter[str]]) -> BlockCost:
    numbers = {"parameters": block.trainable_variables, "statistics": block.non_trainable_variables}
    total = sum(counts, collections.Counter())
    total.update({key: sum(v.shape.num_elements() for v in vs) for key, vs in numbers.items()})
    fields = [field.name for field in dataclasses.fields(BlockCost)]
    return BlockCost(block.name, *(total[field] for field in fields[1:]))


def _dense(call: _Call, following: Any) -> dict[str, int]:
    n_prev, n = call.layer.kernel.shape
    positions = _size(call, call.outputs) // n
    hidden = following is not None and isinstance(following.layer, tf.keras.layers.Dense)
    error = n + n * following.layer.units if hidden else 2 * n
    return {
        "activations": positions * n if n > 1 else 0,
        "forward": positions * (n * n_prev + n),
        "error": positions * error,
        "backward": positions * (error + n * n_prev),
        "update": n * n_prev,
    }


def _convolution(call: _Call, _: Any) -> dict[str, int]:
    kernels = sum(w.shape.num_elements() for w in call.layer.weights if len(w.shape) > 1)
    size = _size(call, call.outputs)
    channels = call.outputs[1 if call.layer.data_format == "channels_first" else -1]
    return {"activations": size, **_twice_backward(kernels * size // channels)}


def _recurrent(call: _Call, _: Any, values: int) -> dict[str, int]:
    cell = call.layer.cell
    inputs, gates = cell.kernel.shape
    steps = _size(call, call.inputs) // inputs
    step = gates * (inputs + cell.units) + gates
    return {
        "activations": steps * cell.units * values,
        "first_half": 0 if call.layer.go_backwards else steps // 2 * step,
        **_twice_backward(steps * step),
    }


def _embedding(call: _Call, _: Any) -> dict[str, int]:
    return {"backward": _size(call, call.outputs)}


def _twice_backward(forward: int) -> dict[str, int]:
    return {"forward": forward, "error": forward, "backward": 2 * forward}


def _size(call: _Call, shape: Any) -> int:
    if shape.num_elements() is None:
        raise ValueError(
            "shapes must be known before a layer runs for its costs to be counted. "
            f"Received: layer={call.layer.name!r}, shape={shape}"
        )
    return shape.num_elements()


# An LSTM keeps its 4 gates before and after their activation, its cell and its output; the
# others are counted likewise.
_RULES: Mapping[str, _Rule] = {
    "Dense": _dense,
    **dict.fromkeys(("Conv1D", "Conv2D", "Conv3D"), _convolution),
    **dict.fromkeys(("DepthwiseConv1D", "DepthwiseConv2D"), _convolution),
    **dict.fromkeys(("SeparableConv1D", "SeparableConv2D"), _convolution),
    "LSTM": functools.partial(_recurrent, values=10),
    "GRU": functools.partial(_recurrent, values=7),
    "SimpleRNN": functools.partial(_recurrent, values=2),
    "Embedding": _embedding,
}


def _rule(layer: Any) -> Any:
    """The rule that counts a layer, None if there is none."""
    matches = (r for name, r in _RULES.items() if isinstance(layer, getattr(tf.keras.layers, name)))
    return next(matches, None)


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
    batch = _capacity_batch(model, batch_size)
    return _memory(blocks, batch) / _memory(measure(model), batch)


def _memory(blocks: Sequence[BlockCost], batch_size: int) -> int:
    return 2 * _sum(blocks, "parameters") + 2 * batch_size * _sum(blocks, "activations")


def _capacity_batch(model: ModelSpec, batch_size: int) -> int:
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
    is_capacity = re.fullmatch(r"0?\.\d+", tier_name)
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
    batch = _capacity_batch(model, batch_size)
    budget = _memory(_tail(model, cut), batch)
    blocks = measure(model)
    ranges: list[tuple[int, int]] = []
    for k in range(cut.blocks):
        start = ranges[-1][0] if ranges else 0
        if ranges and _memory(blocks[start : k + 1], batch) // 2 <= budget:
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

    def operations(self, steps: int, batch_size: int, examples: int) -> int:
        """Operations of a round with this many local steps and local examples."""
        step = batch_size * (self.forward + self.backward) + self.update
        return self.record * examples + steps * step


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


def channels(model: ModelSpec, share: float, batch_size: int) -> ClientCost:
    """A client that trains everything and sends a share of each layer's channels."""
    cost = whole(model, batch_size)
    numbers = cost.bytes_up // _BYTES
    return dataclasses.replace(cost, bytes_up=_BYTES * round(share * numbers))


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


def average_capacity(tiers: Sequence[tiers_lib.Tier], capacities: Sequence[float]) -> float:
    """sum C_i R_i over the tiers, R_i a tier's share of the clients (EmbracingFL, table 3)."""
    clients = sum(tier.count for tier in tiers)
    return sum(c * tier.count / clients for c, tier in zip(capacities, tiers))


def simulated_seconds(
    operations: int, full_operations: int, speed: float, full_seconds: float = 10.0
) -> float:
    """Time for `operations` if speed 1 takes `full_seconds` for `full_operations`."""
    return full_seconds * operations / full_operations / speed


def speed(value: Union[str, float]) -> float:
    """A device's speed; 0.33 is a third, as in FedPMT, whose device of 0.33 takes 30 s for 10 s.

    Raises:
      ValueError: If it is not in (0, inf).
    """
    try:
        number = float(value)
    except ValueError:
        number = math.nan
    if not 0 < number < math.inf:
        raise ValueError(f"speed must be a positive number. Received: speed={value!r}")
    times = round(1 / number)
    return 1 / times if times and round(1 / times, 2) == number else number


def parse_speeds(text: str) -> tuple[float, ...]:
    """Reads speeds such as '0.2,0.25,0.33,0.5,1'.

    Raises:
      ValueError: If one of them is not in (0, inf).
    """
    try:
        return tuple(speed(entry) for entry in text.split(","))
    except ValueError:
        raise ValueError(
            "speeds must be positive numbers such as 0.2,0.25,0.33,0.5,1. "
            f"Received: speeds={text!r}"
        ) from None


def assign_speeds(speeds: Sequence[float], strengths: np.ndarray, seed: int = 0) -> np.ndarray:
    """The speed of every client, float [clients]: equal shares, weaker clients slower.

    Args:
      speeds: The speeds; sizes of their shares differ by at most one.
      strengths: Of every client, such as its capacity [clients].
      seed: Decides among clients of equal strength.
    """
    shuffled = np.random.default_rng([seed, 0x5BEED]).permutation(len(strengths))
    weakest_first = shuffled[np.argsort(np.asarray(strengths)[shuffled], kind="stable")]
    result = np.empty(len(strengths))
    shares = np.arange(len(strengths)) * len(speeds) // max(len(strengths), 1)
    result[weakest_first] = np.sort(np.asarray(speeds, float))[shares]
    return result


def round_seconds(
    client_seconds: Sequence[float], deadline: Optional[float]
) -> tuple[float, list[bool]]:
    """Duration of a round and which clients are in time.

    A round lasts until its slowest client is done, or until the deadline if one is later than that.
    """
    in_time = [deadline is None or seconds <= deadline for seconds in client_seconds]
    if deadline is not None and not all(in_time):
        return deadline, in_time
    return max(client_seconds, default=0.0), in_time


# EmbracingFL, table 1 and, by width, table 10: parameters, activations, capacity.
_TABLE_1 = {
    "resnet20": {
        "strong": (272_762, 6_947_136, 1.00),
        "moderate": (257_994, 2_752_832, 0.42),
        "weak": (206_346, 917_824, 0.16),
        "0.45": (52_874, 3_039_552, 0.43),
        "0.2": (10_006, 1_302_848, 0.18),
    },
    "femnist_cnn": {
        "strong": (6_603_710, 39_742, 1.00),
        "moderate": (6_551_614, 2_110, 0.99),
        "weak": (127_038, 62, 0.02),
    },
    "bilstm": {
        "strong": (3_611_137, 1_310_720, 1.00),
        "moderate": (1_051_137, 1_310_720, 0.48),
        "weak": (1_051_137, 655_360, 0.35),
    },
}
_WIDTHS = (0.45, 0.2)
# FedPMT, table II: batch size, and operations of a step with 0, 1, ... blocks removed.
_TABLE_2 = {
    "fedpmt_fcnn": (12, (15_305_968, 9_779_760, 7_496_160, 6_473_760)),
    "fedpmt_cnn_mnist": (12, (1_828_336, 1_597_936, 1_188_336, 745_456)),
    "fedpmt_cnn_cifar10": (20, (28_068_800, 26_187_200, 24_587_200, 16_077_200, 12_864_200)),
}
_CNN_SLIPS = (
    "The paper counts the convolutions of one example instead of the batch, and leaves out the "
    "dense layers' activation functions"
)
# How the paper's figures come out of its formulas.
_SLIPS = {
    "fedpmt_fcnn": "The paper's full figure counts 784 neurons of Fc1 instead of 400: 12 * 384.",
    "fedpmt_cnn_mnist": f"{_CNN_SLIPS}.",
    "fedpmt_cnn_cifar10": (
        f"{_CNN_SLIPS}; it also counts Conv2 with 20 filters instead of 32, 10 neurons instead of "
        "300 after Fc1, and 3,000 too few from Fc2 on."
    ),
}
_GRAY_MODELS = ("femnist_cnn", "fedpmt_cnn_mnist", "fedpmt_fcnn", "mlp_200", "mlp_100", "softmax")


def report(
    name: str, shape: tuple[int, ...], num_classes: int, batch_size: int, tier_names: Sequence[str]
) -> dict[str, Any]:
    """The costs of a model of `models` by style of training and tier, and the papers' figures.

    `prefix` removes as many blocks as the tier does, from the other end; `channel` sends the
    share of the channels that is the tier's capacity; `width` keeps that share of the channels.
    """
    model = _spec(name, shape, num_classes)
    published = (shape, num_classes) == _default_input(name)
    compares = published and batch_size == _TABLE_2.get(name, (None,))[0]
    return {
        "model": name,
        "input_shape": shape,
        "num_classes": num_classes,
        "batch_size": batch_size,
        "activations_batch": _capacity_batch(model, batch_size),
        "rows": [
            _row(model, batch_size, style, tier, cost, _TABLE_1.get(name) if published else None)
            for style, tier, cost in [
                *_styles(model, batch_size, tier_names),
                *_widths(name, model, batch_size, num_classes),
            ]
        ],
        "fedpmt_table_2": _table_2(model, name) if compares else [],
    }


def _styles(model: ModelSpec, batch_size: int, tier_names: Sequence[str]) -> list[Any]:
    cuts = {tier: cut_of(tier, model, batch_size) for tier in tier_names}
    shares = {cut: capacity(model, cut, batch_size) for cut in cuts.values()}
    styles: dict[str, Callable[[Cut], ClientCost]] = {
        "embracing": lambda cut: recorded_suffix(model, cut, batch_size),
        "fedpmt": lambda cut: backprop_suffix(model, cut, batch_size),
        "prefix": lambda cut: prefix(model, cut.blocks, batch_size),
        "channel": lambda cut: channels(model, shares[cut], batch_size),
    }
    return [(style, tier, cost(cuts[tier])) for style, cost in styles.items() for tier in cuts]


def _widths(name: str, model: ModelSpec, batch_size: int, num_classes: int) -> list[Any]:
    batch = _capacity_batch(model, batch_size)
    found = []
    for width in _WIDTHS:
        narrow = _spec(name, model.input_shape, num_classes, width)
        share = _memory(measure(narrow), batch) / _memory(measure(model), batch)
        cost = dataclasses.replace(whole(narrow, batch_size), capacity=share)
        found.append(("width", f"{width:g}", cost))
    return found


def _row(
    model: ModelSpec, batch_size: int, style: str, tier: str, cost: ClientCost, papers: Any
) -> dict[str, Any]:
    found = {"style": style, "tier": tier, **dataclasses.asdict(cost)}
    found["activations"] *= _capacity_batch(model, batch_size)
    paper = (papers or {}).get(tier) if style in ("embracing", "width") else None
    return {**found, "paper": _compare(found, paper) if paper else ""}


def _compare(ours: Mapping[str, Any], paper: tuple[int, int, float]) -> str:
    text = "{:,} / {:,} / {:.2f}".format(*paper)
    found = ours["parameters"], ours["activations"], round(ours["capacity"], 2)
    if found == paper:
        return f"{text} equal"
    p, a, c = (x - y for x, y in zip(found, paper))
    return f"{text} difference {p:+,} / {a:+,} / {c:+.2f}"


def _table_2(model: ModelSpec, name: str) -> list[dict[str, Any]]:
    batch, figures = _TABLE_2[name]
    clients = [backprop_suffix(model, Cut(removed), batch) for removed in range(len(figures))]
    ours = [client.operations(steps=1, batch_size=batch, examples=0) for client in clients]
    return [
        {
            "removed": removed,
            "operations": ours[removed],
            "ratio": ours[removed] / ours[0],
            "paper": paper,
            "paper_ratio": paper / figures[0],
            "difference": f"{ours[removed] - paper:+,}" if ours[removed] != paper else "equal",
        }
        for removed, paper in enumerate(figures)
    ]


def _spec(name: str, shape: tuple[int, ...], num_classes: int, width: float = 1.0) -> ModelSpec:
    cuts, batch = models.TIERS.get(name, ({}, None))
    return ModelSpec(
        lambda: models.create(name, shape, num_classes, width),
        shape,
        "int32" if name == "bilstm" else "float32",
        cuts={tier: Cut(*cut) for tier, cut in cuts.items()},
        capacity_batch=batch,
    )


def _default_input(name: str) -> tuple[tuple[int, ...], int]:
    """Shape and classes of the data that the papers use the model for."""
    if name == "bilstm":
        return (256,), 2
    if name in _GRAY_MODELS:
        return (28, 28, 1), 62 if name == "femnist_cnn" else 10
    return (32, 32, 3), 10


def _format(found: Mapping[str, Any]) -> str:
    batch = found["activations_batch"]
    lines = [
        f"{found['model']}, input {found['input_shape']}, {found['num_classes']} classes",
        f"activations and capacity of a batch of {batch}; operations of one example, `record` once "
        "a round, `update` once a step; bytes of a round",
        "",
        *_align(found["rows"]),
    ]
    if found["fedpmt_table_2"]:
        lines += ["", f"FedPMT, table II: operations of a step of {found['batch_size']} examples"]
        lines += ["", *_align(found["fedpmt_table_2"]), "", _SLIPS[found["model"]]]
    return "\n".join(line.rstrip() for line in lines)


def _align(rows: Sequence[Mapping[str, Any]]) -> list[str]:
    """Lines of a table: texts to the left, numbers to the right."""
    cells = [[_cell(value) for value in row.values()] for row in rows]
    table = [list(rows[0]), *cells]
    widths = [max(map(len, column)) for column in zip(*table)]
    left = [isinstance(value, str) for value in rows[0].values()]
    return [
        "  ".join(c.ljust(w) if is_left else c.rjust(w) for c, w, is_left in zip(row, widths, left))
        for row in table
    ]


def _cell(value: Any) -> str:
    if isinstance(value, float):
        return f"{value:.2f}"
    return f"{value:,}" if isinstance(value, int) else value


class _Parser(argparse.ArgumentParser):
    def error(self, message: str) -> NoReturn:
        raise ValueError(message)


def _parse(argv: Sequence[str]) -> argparse.Namespace:
    summary = "Prints what training a model costs a client."
    parser = _Parser("python -m tff_partial.costs", description=summary, allow_abbrev=False)
    parser.add_argument("--model", default="resnet20", help=", ".join(models.NAMES))
    parser.add_argument("--batch_size", default="32", help="examples in a local step")
    parser.add_argument("--task", help="whose input and classes to take; by default the papers'")
    parser.add_argument("--num_classes", help="other than the task's")
    parser.add_argument("--tiers", default=",".join(tiers_lib.NAMES), help="such as strong,7,0.3")
    parser.add_argument("--json", action="store_true", help="prints JSON")
    try:
        return parser.parse_args(argv)
    except ValueError as error:
        given = " ".join(argv)
        raise ValueError(f"flags must be as in --help: {error}. Received: {given}") from None


def _input(args: argparse.Namespace) -> tuple[tuple[int, ...], int]:
    """Shape of an example and number of classes."""
    # Imported here, as algorithms import this module.
    import tasks
    from tff_partial import experiment

    if args.model not in models.NAMES:
        raise ValueError(
            f"model must be one of {sorted(models.NAMES)}. Received: model={args.model!r}"
        )
    shape, num_classes = _default_input(args.model)
    if args.task is not None:
        if args.task not in tasks.TASKS:
            raise ValueError(
                f"task must be one of {sorted(tasks.TASKS)}. Received: task={args.task!r}"
            )
        task = tasks.TASKS[args.task]
        shape, num_classes = task.input_shape, task.num_classes
        dtype = "int32" if task.demo.model in experiment.TOKEN_MODELS else "uint8"
        data = types.SimpleNamespace(input_shape=shape, x_dtype=np.dtype(dtype))
        experiment.check_model_fits(args.model, data)
    return shape, _positive("num_classes", args.num_classes or str(num_classes))


def _positive(name: str, text: str) -> int:
    if not (text.isdecimal() and int(text) > 0):
        raise ValueError(f"{name} must be a positive integer. Received: {name}={text!r}")
    return int(text)


def main(argv: Sequence[str]) -> int:
    """Prints the report that the flags ask for; returns the exit code."""
    os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")
    try:
        args = _parse(argv)
        batch_size = _positive("batch_size", args.batch_size)
        found = report(args.model, *_input(args), batch_size, args.tiers.split(","))
    except ValueError as error:
        print(f"error: {error}", file=sys.stderr)
        return 2
    print(json.dumps(found) if args.json else _format(found))
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
