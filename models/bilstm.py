"""The bidirectional LSTM for IMDB of EmbracingFL and partial averaging (Lee et al.)."""

from __future__ import annotations

import tensorflow as tf

from models import blocks
from models.blocks import Shape


def create_bilstm(
    input_shape: Shape,
    num_classes: int,
    width: float = 1.0,
    *,
    vocabulary: int = 10_000,
    embedding: int = 256,
    units: int = 256,
    dropout: float = 0.3,
) -> tf.keras.Sequential:
    """Embedding 256, dropout 0.3, LSTM of 256 in each direction, dropout 0.3, dense.

    The dense layer sees the last states of both directions. The papers leave open masking
    (none here) and what "the output of each recurrence is followed by dropout" means (dropout
    of the last states here; recurrent dropout would rule out the cuDNN kernel).

    Args:
      input_shape: `(length,)`; the input is token ids, int32 [batch, length].
      num_classes: number of classes; 2 gives one logit, more give one logit each.
      width: share of `embedding` and `units` to keep.
      vocabulary: number of tokens.
      embedding: size of an embedded token.
      units: units of the LSTM in each direction.
      dropout: rate before and after the LSTM.

    Returns:
      A Sequential of the blocks `embedding`, `lstm` and `classifier`.

    Raises:
      ValueError: if a size is not positive or the rate is not in [0, 1).
    """
    _validate(input_shape, vocabulary, embedding, units, dropout)
    recurrent = tf.keras.layers.LSTM(blocks.scale(width, units), name="lstm")
    parts = [
        tf.keras.layers.Embedding(vocabulary, blocks.scale(width, embedding), name="embedding"),
        blocks.chain(
            "lstm",
            tf.keras.layers.Dropout(dropout, name="lstm_dropout_before"),
            tf.keras.layers.Bidirectional(recurrent, name="lstm_bidirectional"),
            tf.keras.layers.Dropout(dropout, name="lstm_dropout_after"),
        ),
        blocks.classifier(1 if num_classes == 2 else num_classes),
    ]
    return blocks.sequential("bilstm", input_shape, parts, dtype="int32")


def _validate(
    input_shape: Shape, vocabulary: int, embedding: int, units: int, dropout: float
) -> None:
    if len(input_shape) != 1:
        raise ValueError(
            f"input_shape of bilstm must be (length,). Received: input_shape={input_shape}"
        )
    sizes = {"vocabulary": vocabulary, "embedding": embedding, "units": units}
    for name, size in sizes.items():
        if size < 1:
            raise ValueError(f"{name} must be positive. Received: {name}={size}")
    if not 0 <= dropout < 1:
        raise ValueError(f"dropout must be in [0, 1). Received: dropout={dropout}")
