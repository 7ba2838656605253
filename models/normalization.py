"""The normalisations that a convolutional model can be built with.

| name     | in training                   | in evaluation                  |
|----------|-------------------------------|--------------------------------|
| `batch`  | batch statistics, tracks them | moving statistics              |
| `static` | batch statistics, no tracking | moving statistics, set outside |
| `group`  | statistics of one example     | the same                       |
| `none`   | nothing                       | nothing                        |

`static` is the static batch normalisation of HeteroFL (Diao et al., 2021, arXiv:2010.01264).
"""

from __future__ import annotations

from collections.abc import Callable

import tensorflow as tf


@tf.keras.utils.register_keras_serializable("models")
class StaticBatchNormalization(tf.keras.layers.BatchNormalization):
    """Batch normalisation whose moving statistics never change in training.

    It has the variables of `tf.keras.layers.BatchNormalization`; whoever evaluates the model
    assigns `moving_mean` and `moving_variance`, e.g. from one pass over the clients' data.
    `tff_partial` recognises such layers, these and a user's own, by their attribute `observe`.

    Attributes:
      observe: While it is set, a call normalises with the statistics of its batch whatever
        `training` says, and hands it (mean, biased variance) of the batch. Read when a call is
        traced.
    """

    observe: Callable[[tuple[tf.Tensor, tf.Tensor]], None] | None = None

    def call(
        self,
        inputs: tf.Tensor,
        training: bool | tf.Tensor | None = None,
        mask: tf.Tensor | None = None,
    ) -> tf.Tensor:
        """Normalises; see the class for `observe`."""
        if self.observe is not None:
            axes = [axis for axis in range(len(inputs.shape)) if axis not in self.axis]
            self.observe(tf.nn.moments(inputs, axes))
            training = True
        return super().call(inputs, training=training, mask=mask)

    def add_update(self, updates: object) -> None:
        """Drops the updates of the moving statistics that the training call registers."""


def groups(channels: int) -> int:
    """Returns the largest divisor of `channels` that is at most 32 and at most channels / 2.

    Two channels a group at least: a group of one value, a channel of a 1x1 map, would be zero.
    """
    limit = max(1, min(32, channels // 2))
    return next(size for size in range(limit, 0, -1) if channels % size == 0)


def layers(
    kind: str, name: str, channels: int, gamma: str = "ones", epsilon: float = 1e-3
) -> list[tf.keras.layers.Layer]:
    """Returns the normalisation as a list of one layer, or of none for `none`.

    `gamma` initialises the scale. Epsilon is added to the variance; 1e-3 is Keras's, 1e-5
    PyTorch's. Raises a ValueError if there is no such kind.
    """
    options = {"epsilon": epsilon, "gamma_initializer": gamma, "name": name}
    if kind == "batch":
        return [tf.keras.layers.BatchNormalization(**options)]
    if kind == "static":
        return [StaticBatchNormalization(**options)]
    if kind == "group":
        return [tf.keras.layers.GroupNormalization(groups(channels), **options)]
    if kind == "none":
        return []
    raise ValueError(
        "normalization must be one of ['batch', 'static', 'group', 'none']. "
        f"Received: normalization={kind!r}"
    )
