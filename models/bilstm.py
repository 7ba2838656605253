"""The bidirectional LSTM for IMDB of EmbracingFL and partial averaging (Lee et al.)."""

from __future__ import annotations

from typing import Callable

import tensorflow as tf

from . import blocks
from .blocks import Shape


@tf.keras.utils.register_keras_serializable("models")
class BiLSTMBlock(tf.keras.Sequential):
    """Dropout, a bidirectional LSTM, dropout; a client can leave out the first half of the words.

    The first half are the first floor(length / 2) words. In the plain graphs of TFF, call both
    methods where Keras behaves as in TF 2 (as `Model.forward` does with blocks).
    """

    def record_first_half(self, x: tf.Tensor) -> dict[str, tf.Tensor]:
        """Returns what `call_second_half` needs of embedded words [batch, length, embedding].

        Without dropout, and no gradient goes through it.

        Returns:
          `words`, the second half of x, and `h` and `c` [batch, units], the states of the
          forward LSTM after the first half.
        """
        half = x.shape[1] // 2
        forward = self.layers[1].forward_layer
        h, c = _last_states(forward, x[:, :half]) if half else forward.get_initial_state(x)
        recorded = {"words": x[:, half:], "h": h, "c": c}
        return {name: tf.stop_gradient(value) for name, value in recorded.items()}

    def call_second_half(self, recorded: dict[str, tf.Tensor], training: bool) -> tf.Tensor:
        """Returns the block's output [batch, 2 * units] from what `record_first_half` returned.

        The forward LSTM goes on from the recorded states; the backward LSTM covers the second
        half only.
        """
        before, bidirectional, after = self.layers
        h, c = recorded["h"], recorded["c"]
        words = before(recorded["words"], training=training)
        forward = bidirectional.forward_layer(words, initial_state=[h, c], training=training)
        states = [_once(forward, tf.zeros_like(h)), tf.zeros_like(c)]
        backward = bidirectional.backward_layer(words, initial_state=states, training=training)
        return after(tf.concat([forward, backward], axis=-1), training=training)


@tf.custom_gradient
def _once(first: tf.Tensor, value: tf.Tensor) -> tuple[tf.Tensor, Callable]:
    """Returns `value` once `first` is there, and gives `first` its gradient after that of `value`.

    So a client with little memory runs one LSTM at a time, backwards too: what a backward pass adds
    up is there for one of them only.
    """

    def gradients(of_value: tf.Tensor) -> tuple[tf.Tensor, tf.Tensor]:
        with tf.control_dependencies([of_value]):
            return tf.zeros_like(first), of_value

    with tf.control_dependencies([first]):
        return tf.identity(value), gradients


def _last_states(lstm: tf.keras.layers.LSTM, x: tf.Tensor) -> tuple[tf.Tensor, tf.Tensor]:
    """The states h and c of an LSTM layer that otherwise returns its output only."""
    lstm.return_state = True
    try:
        _, h, c = lstm(x, training=False)
    finally:
        lstm.return_state = False
    return h, c


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
      vocabulary, embedding, units, dropout: if other than the papers'.

    Returns:
      A Sequential of the blocks `embedding`, `lstm` (a `BiLSTMBlock`) and `classifier`.

    Raises:
      ValueError: if a size is not positive or the rate is not in [0, 1).
    """
    _validate(input_shape, vocabulary, embedding, units, dropout)

    def lstm(shape: Shape) -> BiLSTMBlock:
        recurrent = tf.keras.layers.LSTM(blocks.scale(width, units), name="lstm")
        layers = [
            tf.keras.Input(shape),
            tf.keras.layers.Dropout(dropout, name="lstm_dropout_before"),
            tf.keras.layers.Bidirectional(recurrent, name="lstm_bidirectional"),
            tf.keras.layers.Dropout(dropout, name="lstm_dropout_after"),
        ]
        return BiLSTMBlock(layers, name="lstm")

    parts = [
        tf.keras.layers.Embedding(vocabulary, blocks.scale(width, embedding), name="embedding"),
        lstm,
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
