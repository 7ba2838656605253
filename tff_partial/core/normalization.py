"""Static batch normalisation: layers that track no statistics in training.

They are `tf.keras.layers.BatchNormalization`s with an attribute `observe`. While it is set to a
function, a call normalises with the statistics of its batch and passes them to the function.
`models.normalization` has such a layer.
"""

from __future__ import annotations

import contextlib
import functools
from collections.abc import Iterator, Sequence

from tff_partial.core.lazy import tf
from tff_partial.core.types import Layer, Structure


def is_static(layer: Layer) -> bool:
    """Return whether a layer is a static batch normalisation."""
    return isinstance(layer, tf.keras.layers.BatchNormalization) and hasattr(layer, "observe")


@contextlib.contextmanager
def observe_batches(layers: Sequence[Layer]) -> Iterator[list[Structure]]:
    """Make the layers normalise by batch; yield a list that receives the batches' statistics.

    The list holds, in the order of `layers`, (mean, biased variance) of each layer's last call.
    """
    statistics: list[Structure] = [None] * len(layers)
    try:
        for index, layer in enumerate(layers):
            layer.observe = functools.partial(statistics.__setitem__, index)
        yield statistics
    finally:
        for layer in layers:
            layer.observe = None
