"""Which part of the model a client trains."""

from __future__ import annotations

from typing import Any, Callable, NamedTuple

from tff_partial.model_spec import Model


class Part(NamedTuple):
    """A part of a model, as the local loop needs it.

    Attributes:
      variables: The trainable variables it trains.
      statistics: The non-trainable variables (batch-norm statistics) it moves.
      prepare: The client's examples [n, ...] -> what batches are gathered from, once a round.
      forward: A batch of what `prepare` returned -> logits, in training mode.
    """

    variables: tuple[Any, ...]
    statistics: tuple[Any, ...]
    prepare: Callable[[Any], Any]
    forward: Callable[[Any], Any]


def everything(model: Model) -> Part:
    """The whole model, trained on the examples themselves."""

    def forward(x: Any) -> Any:
        return model.forward(model.preprocess(model.augment(x)), training=True)

    return Part(tuple(model.trainable), tuple(model.statistics), lambda x: x, forward)
