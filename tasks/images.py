"""Tasks of images: their constructor, and what happens to a batch in the graph."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Callable

from tff_partial.core.types import Tensor

from . import real
from .task import Task


def create_task(
    name: str,
    url: str,
    mean: Sequence[float],
    std: Sequence[float],
    tfds_name: str = "",
    transpose: bool = False,
    train: str = "train",
    **fields: Any,
) -> Task:
    """Return a task of images that tensorflow-datasets has.

    Args:
      name: As in --task, and in tensorflow-datasets unless `tfds_name` is given.
      mean, std: Of each channel, of pixels in [0, 1].
      url, transpose, train: As of `real.image_loader`.
      **fields: The other fields of `Task`.
    """
    tfds_name = tfds_name or name
    return Task(
        name=name,
        tfds_name=tfds_name,
        loss="categorical",
        preprocess=standardise(mean, std),
        load_real=real.image_loader(tfds_name, url, transpose, train),
        is_prepared=real.prepared_check(tfds_name),
        **fields,
    )


def standardise(mean: Sequence[float], std: Sequence[float]) -> Callable[[Tensor], Tensor]:
    """Return x -> (x / 255 - mean) / std by channel, from uint8 [n, h, w, c] to float32."""

    def preprocess(x: Tensor) -> Tensor:
        import tensorflow as tf

        scaled = tf.cast(x, tf.float32) / 255.0
        return (scaled - tf.constant(mean, tf.float32)) / tf.constant(std, tf.float32)

    return preprocess


def crop_and_flip(x: Tensor, seed: Tensor) -> Tensor:
    """Crop images [n, h, w, c] as `random_crop` does, and mirror half; a function of seed [2]."""
    return random_crop(_flip(x, seed), seed)


def random_crop(x: Tensor, seed: Tensor) -> Tensor:
    """Crop each image [n, h, w, c] at random out of itself with 4 pixels of 0 around."""
    import tensorflow as tf

    n, height, width = tf.shape(x)[0], x.shape[1], x.shape[2]
    corners = tf.random.stateless_uniform([2, n, 1, 1], seed, 0, 9, tf.int32)
    rows = corners[0] + tf.range(height)[None, :, None]
    columns = corners[1] + tf.range(width)[None, None, :]
    where = tf.stack([rows + 0 * columns, 0 * rows + columns], axis=-1)
    padded = tf.pad(x, [[0, 0], [4, 4], [4, 4], [0, 0]])
    return tf.ensure_shape(tf.gather_nd(padded, where, batch_dims=1), x.shape)


def _flip(x: Tensor, seed: Tensor) -> Tensor:
    import tensorflow as tf

    seed = tf.random.experimental.stateless_fold_in(seed, 1)
    mirrored = tf.random.stateless_uniform([tf.shape(x)[0], 1, 1, 1], seed) < 0.5
    return tf.where(mirrored, x[:, :, ::-1], x)
