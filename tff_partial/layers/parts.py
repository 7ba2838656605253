"""Which part of the model a client trains.

| part         | trains           | forward pass                          | back-propagation |
|--------------|------------------|---------------------------------------|------------------|
| `everything` | all blocks       | of all blocks, every step             | through all      |
| `recorded`   | `blocks[cut:]`   | of the others once a round, then of   | through these    |
|              |                  | these, every step                     |                  |
| `stopped`    | `blocks[cut:]`   | of all blocks, every step             | through these    |
| `leading`    | `blocks[:K-cut]` | of all blocks, every step             | through all      |
| `between`    | `blocks[i:j]`    | of all blocks, every step             | down to these    |
"""

from __future__ import annotations

import functools
from collections.abc import Sequence
from typing import Callable

from tff_partial.core.lazy import tf
from tff_partial.core.model import Cut, Model, ModelSpec
from tff_partial.core.part import Part, everything
from tff_partial.core.types import Layer, Structure, Tensor
from tff_partial.layers import recorded as recording


def recorded(
    model: Model,
    cut: Cut,
    steps: Sequence[tuple[int, int]],
    batch_size: int,
    statistics: str = "moving",
    folder: str = "",
    precision: str = "float32",
) -> Part:
    """Return the blocks after the cut, trained on activations that are recorded once a round.

    Args:
      model, cut: The model, and what of it is left out.
      steps: Ranges of the blocks before the cut, each a step of the forward pass.
      batch_size: Examples at a time in that pass.
      statistics: Batch norm before the cut uses `moving` statistics or those of the `batch`.
      folder: Where the recorded activations are spilled to; in memory if empty.
      precision: Type that they are kept in; `float32` is the type that they have.
    """
    if not cut.blocks and not cut.half:
        return everything(model)
    tail = model.blocks[cut.blocks :]
    recorder = recording.Recorder(model, cut, steps, batch_size, statistics, precision)

    def forward(x: Structure) -> Tensor:
        x = recorder.restored(x)
        if cut.half:
            x = model.forward_second_half(tail[0], x)
            return model.forward(x, training=True, blocks=tail[1:])
        return model.forward(x, training=True, blocks=tail)

    part = _of_blocks(model, tail, forward)
    if not folder:
        return part._replace(prepare=functools.partial(recording.in_memory, recorder))
    disk = recording.Disk(recorder, folder)
    return part._replace(prepare=disk.write, batch=disk.read)


def stopped(model: Model, cut: Cut) -> Part:
    """Return the blocks after the cut; a step's forward pass runs through the whole model."""
    if not cut.blocks:
        return everything(model)
    head, tail = model.blocks[: cut.blocks], model.blocks[cut.blocks :]

    def forward(x: Tensor) -> Tensor:
        x = model.forward(model.preprocess(model.augment(x)), training=True, blocks=head)
        return model.forward(tf.stop_gradient(x), training=True, blocks=tail)

    return _of_blocks(model, tail, forward)


def leading(model: Model, removed: int) -> Part:
    """Return all but the last `removed` blocks, trained through the whole model."""
    kept = model.blocks[: len(model.blocks) - removed]
    # What the removed blocks add to the loss depends on the kept ones, as their outputs do.
    return _of_blocks(model, kept, everything(model).forward)._replace(blocks=tuple(model.blocks))


def between(model: Model, start: int, stop: int) -> Part:
    """Return some blocks in the middle, trained through the whole model, and all statistics."""
    part = _of_blocks(model, model.blocks[start:stop], everything(model).forward)
    return part._replace(statistics=tuple(model.statistics), blocks=tuple(model.blocks))


def groups(model: ModelSpec) -> list[tuple[int, int]]:
    """Return ranges (first block, block after the last) that each hold a layer with weights.

    A group begins with a block that has a trained matrix or kernel; blocks without, such as
    normalisation, belong to the one before them.
    """
    with tf.Graph().as_default():
        blocks = model.instantiate(initial=False).blocks
        begins = [
            k
            for k, block in enumerate(blocks)
            if any(v.shape.rank > 1 for v in block.trainable_variables)
        ]
    starts = [0, *begins[1:]]
    return list(zip(starts, [*starts[1:], len(blocks)]))


def _of_blocks(
    model: Model, blocks: Sequence[Layer], forward: Callable[[Structure], Tensor]
) -> Part:
    own = {id(v) for block in blocks for v in block.variables}
    return Part(
        tuple(v for v in model.trainable if id(v) in own),
        tuple(v for v in model.statistics if id(v) in own),
        forward,
        blocks=tuple(blocks),
    )
