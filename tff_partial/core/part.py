"""A part of a model as the local loop needs it, and the part that is the whole model."""

from __future__ import annotations

from typing import Any, Callable, NamedTuple, Optional

from tff_partial.core.lazy import tf
from tff_partial.core.model import Model


def gather(inputs: Any, indices: Any) -> Any:
    """The examples of a batch, from one tensor or a structure of tensors [n, ...]."""
    return tf.nest.map_structure(lambda tensor: tf.gather(tensor, indices), inputs)


class Part(NamedTuple):
    """A part of a model, as the local loop needs it.

    Attributes:
      variables: The trainable variables it trains.
      statistics: The non-trainable variables (batch-norm statistics) it moves.
      forward: A batch of what `batch` returned -> logits, in training mode.
      prepare: The client's record -> what batches are gathered from, once a round.
      batch: (What `prepare` returned, indices) -> the examples of a step.
      share: Variable -> its share in the mean, 1 or an array that multiplies its last axis.
      backprop: (A batch, labels) -> gradients, losses and logits, where they are not those of
        `forward`.
    """

    variables: tuple[Any, ...]
    statistics: tuple[Any, ...]
    forward: Callable[[Any], Any]
    prepare: Callable[[Any], Any] = lambda record: record["x"]
    batch: Callable[[Any, Any], Any] = gather
    share: Callable[[Any], Any] = lambda variable: 1.0
    backprop: Optional[Callable[[Any, Any], tuple[list[Any], Any, Any]]] = None


def everything(model: Model) -> Part:
    """The whole model, trained on the examples themselves."""

    def forward(x: Any) -> Any:
        return model.forward(model.preprocess(model.augment(x)), training=True)

    return Part(tuple(model.trainable), tuple(model.statistics), forward)
