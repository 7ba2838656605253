"""Local models of which a part is synchronised: the schemes of EmbracingFL's figures 1 and 3.

Lee et al., Embracing federated learning, 2024, sections 1 and 3.2 (papers/embracingfl.txt):

    for each round:
        every client i:  x_i <- tau steps of SGD from x_i
        every client i:  the synchronised part of x_i <- its mean over the clients

| scheme        | synchronised                                                              |
|---------------|---------------------------------------------------------------------------|
| `none`        | nothing, clients are independent (figure 1)                               |
| `first_half`  | the first floor(K / 2) of the K blocks with parameters (figure 3b)        |
| `second_half` | the other blocks (figures 3a and 3b)                                      |
| `channel`     | half of the channels of every layer, the last layer whole (figure 3a)     |

It is periodic averaging with another subset. What the paper leaves open: where exactly the halves
meet (ResNet20's first half ends before Conv 10 here; in the paper Conv 7 is in it), which channels
are synchronised (the first ones here, channel_shares.py), and momentum (it stays local here).
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from tff_partial.core.lazy import tf
from tff_partial.core.model import Model, ModelSpec
from tff_partial.layers import channel_masks
from tff_partial.processes import averaging, parameter_subsets

SCHEMES = ("none", "first_half", "second_half", "channel")
CHANNELS = 0.5
_SYNCHRONISED, _LOCAL = 0, 1  # subsets


class Shares(NamedTuple):
    """What is synchronised: for each variable a bool for all of it, or for each channel.

    Attributes:
      trainable: Of the trainable variables, [] or [channels] each.
      statistics: Of the non-trainable variables, batch-norm statistics, flat and one after the
        other, as a client's state holds them.
    """

    trainable: list[np.ndarray]
    statistics: np.ndarray


def shares(model: ModelSpec, scheme: str) -> Shares:
    """What a scheme synchronises of a model.

    Raises:
      ValueError: If there is no such scheme, or the model has no halves.
    """
    if scheme not in SCHEMES:
        raise ValueError(f"scheme must be one of {SCHEMES}. Received: scheme={scheme!r}")
    with tf.Graph().as_default():
        built = model.instantiate()
        found = _masks(built, scheme)
        flat = [
            np.broadcast_to(found[id(v)], v.shape.as_list()).reshape(-1) for v in built.statistics
        ]
        return Shares(
            [found[id(v)] for v in built.trainable],
            np.concatenate(flat) if flat else np.zeros(0, bool),
        )


def build(model: ModelSpec, params: Any, scheme: str) -> averaging.AveragingProcess:
    """Returns the process.

    Args:
      model: The model.
      params: `averaging_process.AveragingParams`; its steps are tau.
      scheme: One of `SCHEMES`.
    """
    owners = [
        np.where(share, _SYNCHRONISED, _LOCAL).astype(np.int32)
        for share in shares(model, scheme).trainable
    ]
    layout = parameter_subsets.Layout(parameter_subsets.shapes_of(model), owners, 2)
    rules = averaging.Rules(layout, [(0, params.interval(), _SYNCHRONISED)])
    return averaging.build(model, params, rules)


def _masks(model: Model, scheme: str) -> dict[int, np.ndarray]:
    """id(variable) -> what of it is synchronised."""
    if scheme == "channel":
        found = channel_masks.masks(model, CHANNELS)
        return {key: mask.astype(bool) for key, mask in found.items()}
    chosen = {id(v) for block in _blocks(model, scheme) for v in block.variables}
    return {id(v): np.array(id(v) in chosen) for v in model.variables}


def _blocks(model: Model, scheme: str) -> list[Any]:
    if scheme == "none":
        return []
    trained = [block for block in model.blocks if block.trainable_variables]
    if len(trained) < 2:
        raise ValueError(
            "model must have at least two blocks with parameters to have halves. "
            f"Received: {[block.name for block in trained]}"
        )
    half = len(trained) // 2
    return trained[:half] if scheme == "first_half" else trained[half:]
