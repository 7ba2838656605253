"""A part of a model as the local loop needs it, and the part that is the whole model."""

from __future__ import annotations

from typing import Callable, NamedTuple, Optional, Union

from tff_partial.core.lazy import tf
from tff_partial.core.model import Model
from tff_partial.core.types import Array, Layer, Record, Structure, Tensor, Variable

# Gradients of the mean loss of a batch; the loss and the logits of each example.
Backprop = tuple[list[Tensor], Tensor, Tensor]


def gather(inputs: Structure, indices: Tensor) -> Structure:
    """Return the examples of a batch, from one tensor or a structure of tensors [n, ...]."""
    return tf.nest.map_structure(lambda tensor: tf.gather(tensor, indices), inputs)


class Part(NamedTuple):
    """A part of a model, as the local loop needs it.

    Attributes:
      variables: The trainable variables it trains.
      statistics: The non-trainable variables (batch-norm statistics) it moves.
      forward: A batch of what `batch` returned -> logits, in training mode.
      prepare: The client's record -> what batches are gathered from, once a round.
      batch: (What `prepare` returned, indices) -> the examples of a step.
      weight: Variable -> factor of its weight in the mean over clients: 1, or an array that
        multiplies its last axis.
      blocks: What `forward` runs of the model with gradients: the regularisation of these counts.
      backprop: (A batch, labels) -> gradients, losses and logits, where they are not those of
        `forward`.
    """

    variables: tuple[Variable, ...]
    statistics: tuple[Variable, ...]
    forward: Callable[[Structure], Tensor]
    prepare: Callable[[Record], Structure] = lambda record: record["x"]
    batch: Callable[[Structure, Tensor], Structure] = gather
    weight: Callable[[Variable], Union[float, Array]] = lambda variable: 1.0
    blocks: tuple[Layer, ...] = ()
    backprop: Optional[Callable[[Structure, Tensor], Backprop]] = None


def carrying(part: Part, name: str) -> Part:
    """Return a part whose batches are pairs: the examples, and what the record has of this name."""

    def prepare(record: Record) -> Structure:
        return part.prepare(record), record[name]

    def batch(inputs: Structure, indices: Tensor) -> Structure:
        return part.batch(inputs[0], indices), inputs[1]

    return part._replace(prepare=prepare, batch=batch)


def everything(model: Model) -> Part:
    """Return the whole model, trained on the examples themselves."""

    def forward(x: Tensor) -> Tensor:
        return model.forward(model.preprocess(model.augment(x)), training=True)

    return Part(
        tuple(model.trainable), tuple(model.statistics), forward, blocks=tuple(model.blocks)
    )
