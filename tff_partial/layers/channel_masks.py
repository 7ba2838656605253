"""Which channels of each variable a client shares, for algorithms that share some of every layer's.

Of a layer with m channels these are the first ceil(share * m); the last layer is shared whole. A
variable's channels are its last axis, where the gates of a recurrent cell stand side by side, each
with the m channels of the cell.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np

from tff_partial.core.lazy import tf
from tff_partial.core.model import Model
from tff_partial.core.types import Array, Layer, Variable


def masks(model: Model, share: float) -> dict[int, Array]:
    """Return id(variable) -> 1.0 for each channel of its last axis that is shared, else 0.0."""
    gates = {
        id(variable): cell.kernel.shape[-1] // cell.units
        for cell in model.layers_of(tf.keras.layers.Layer)
        if hasattr(cell, "recurrent_kernel") and hasattr(cell, "units")
        for variable in cell.variables
    }
    whole = {id(variable) for variable in _last_layer(model.blocks).variables}
    return {
        id(v): _mask(v, 1.0 if id(v) in whole else share, gates.get(id(v), 1))
        for v in model.variables
    }


def count(model: Model, share: float) -> int:
    """Return how many numbers a client sends that shares this much."""
    shared = masks(model, share)
    return sum(int(shared[id(v)].sum()) * math.prod(v.shape[:-1]) for v in model.variables)


def _last_layer(layers: Sequence[Layer]) -> Layer:
    """Return the last layer that has variables; inside of a model, the last of its layers."""
    last = next(layer for layer in reversed(layers) if layer.variables)
    inner = [layer for layer in getattr(last, "layers", ()) if layer.variables]
    return _last_layer(inner) if inner else last


def _mask(variable: Variable, share: float, gates: int) -> Array:
    if not variable.shape.rank:
        return np.ones([], np.float32)
    channels = variable.shape[-1] // gates
    # 0.55 * 100 is 55.00000000000001 in floating point.
    kept = np.arange(channels) < math.ceil(round(share * channels, 9))
    return np.tile(kept, gates).astype(np.float32)
