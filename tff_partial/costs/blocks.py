"""What a block of a model costs: parameters, activations, operations.

Operations are counted as in FedPMT (section V-A), with n neurons, s x s filters and m x m outputs
of a convolution:

| layer                | forward                     | error signal   | gradient     | a batch    |
|----------------------|-----------------------------|----------------|--------------|------------|
| dense, hidden        | n * n_prev + n              | n + n * n_next | n * n_prev   | n * n_prev |
| dense, else          | n * n_prev + n              | 2 n            | n * n_prev   | n * n_prev |
| convolution          | n_prev * s^2 * n * m^2      | the same       | the same     | 0          |
| LSTM, each direction | steps * (4 n (in + n) + 4n) | the same       | the same     | 0          |
| embedding            | 0                           | 0              | length * dim | 0          |
| attention, each head | projections + 2 L^2 k       | the same       | the same     | 0          |

`hidden` is a dense layer that another dense layer follows. Everything else counts 0, and so do
layers of unknown kinds, but for their parameters. What frozen layers do not compute is in `frozen`.
The rows of LSTM, embedding and attention (k numbers a key, L positions) are not from the paper. The
rules are in the table of layer kinds (`submodels.layer_rules`).
"""

from __future__ import annotations

import collections
import dataclasses
import functools
from collections.abc import Sequence
from typing import Callable

from tff_partial.core.lazy import tf
from tff_partial.core.model import Model, ModelSpec
from tff_partial.core.types import Layer, Structure
from tff_partial.costs import frozen
from tff_partial.submodels import layer_rules
from tff_partial.submodels.layer_costs import Call, CostRule


@dataclasses.dataclass(frozen=True)
class BlockCost:
    """What a block costs; operations and activations are those of one example.

    Attributes:
      name: The block's name.
      parameters: Trainable numbers.
      statistics: Other numbers that are sent, such as moving means; not those of frozen layers.
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


def measure(model: ModelSpec) -> tuple[BlockCost, ...]:
    """Return the costs of each block, computed once for a `ModelSpec`.

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
        calls: list[Call] = []
        layers = {id(m): m for block in built.blocks for m in (block, *block.submodules)}
        for layer in layers.values():
            kind = layer_rules.kind_of(layer)
            if kind and kind.cost:
                layer.call = _recorded(layer, kind.cost, calls)
        noted = frozen.note_trained(layers.values(), calls)
        # No constant: shapes that depend on the values must stay unknown.
        example = tf.compat.v1.placeholder(model.input_dtype, [1, *model.input_shape])
        x = built.preprocess(example)
        ends = [0]
        for block in built.blocks:
            x = built.forward(x, training=False, blocks=[block])
            ends.append(len(calls))
        counts = [
            collections.Counter(call.rule(call, following))
            for call, following in zip(calls, [*calls[1:], None])
        ]
        counts = frozen.left_out([call.layer for call in calls], counts, noted)
        return tuple(
            _block_cost(built, block, counts[start:stop])
            for block, start, stop in zip(built.blocks, ends, ends[1:])
        )


def _recorded(layer: Layer, rule: CostRule, calls: list[Call]) -> Callable[..., Structure]:
    """Return the layer's `call`, which also appends to `calls`."""
    call = layer.call

    @functools.wraps(call)
    def recorded(inputs: Structure, *args: object, **kwargs: object) -> Structure:
        outputs = call(inputs, *args, **kwargs)
        first = [tf.nest.flatten(tensors)[0].shape for tensors in (inputs, outputs)]
        calls.append(Call(rule, layer, *first))
        return outputs

    return recorded


def _block_cost(
    model: Model, block: Layer, counts: Sequence[collections.Counter[str]]
) -> BlockCost:
    sent = {id(v) for v in model.statistics}
    statistics = [v for v in block.non_trainable_variables if id(v) in sent]
    numbers = {"parameters": block.trainable_variables, "statistics": statistics}
    total = sum(counts, collections.Counter())
    total.update({key: sum(v.shape.num_elements() for v in vs) for key, vs in numbers.items()})
    fields = [field.name for field in dataclasses.fields(BlockCost)]
    return BlockCost(block.name, *(total[field] for field in fields[1:]))
