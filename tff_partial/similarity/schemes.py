"""Local models of which a part is synchronised: the schemes of EmbracingFL's figures 1 and 3.

Lee et al., Embracing Federated Learning: Enabling Weak Client Participation via Partial Model
Training, 2024, sections 1 and 3.2:

    for each round:
        every client i:  x_i <- tau steps of SGD from x_i
        every client i:  the synchronised part of x_i <- its mean over the clients

| scheme        | synchronised                                                              |
|---------------|---------------------------------------------------------------------------|
| `none`        | nothing, clients are independent (figure 1)                               |
| `first_half`  | the first floor(K / 2) of the K blocks with parameters (figure 3b)        |
| `second_half` | the other blocks (figures 3a and 3b)                                      |
| `channel`     | half of the channels of every layer, the last layer whole (figure 3a)     |

It is periodic averaging of another subset. The paper leaves open where exactly the halves meet
(here ResNet20's first half ends before Conv 10; in the paper it contains Conv 7), which channels
are synchronised (here the first ones, `layers.channel_masks`), and momentum (here it stays local).
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from tff_partial.core.lazy import tf
from tff_partial.core.model import Model, ModelSpec
from tff_partial.core.types import Layer
from tff_partial.layers import channel_masks
from tff_partial.processes import averaging, parameter_subsets

SCHEMES = ("none", "first_half", "second_half", "channel")
# Figure of the paper -> what it compares.
FIGURES = {1: ("none",), 3: ("second_half", "channel", "first_half")}
CHANNELS = 0.5
_SYNCHRONISED, _LOCAL = 0, 1  # subsets


class Shares(NamedTuple):
    """What is synchronised: for each variable a bool for all of it, or for each channel.

    Attributes:
      trainable: For the trainable variables, [] or [channels] each.
      statistics: For the batch-norm statistics, flat and one after the other, as a client's state
        holds them.
    """

    trainable: list[np.ndarray]
    statistics: np.ndarray


def shares(model: ModelSpec, scheme: str) -> Shares:
    """Return what a scheme synchronises of a model.

    Raises:
      ValueError: If there is no such scheme, or the model has no halves.
    """
    if scheme not in SCHEMES:
        raise ValueError(f"scheme must be one of {SCHEMES}. Received: scheme={scheme!r}")
    with tf.Graph().as_default():
        built = model.instantiate()
        masks = _masks(built, scheme)
        flat = [
            np.broadcast_to(masks[id(v)], v.shape.as_list()).reshape(-1) for v in built.statistics
        ]
        none = np.zeros(0, bool)
        return Shares([masks[id(v)] for v in built.trainable], np.concatenate([none, *flat]))


def build(
    model: ModelSpec, params: averaging.AveragingParams, scheme: str
) -> averaging.AveragingProcess:
    """Return the process of a scheme; the local steps of `params` are tau."""
    owners = [
        np.where(share, _SYNCHRONISED, _LOCAL).astype(np.int32)
        for share in shares(model, scheme).trainable
    ]
    layout = parameter_subsets.Layout(parameter_subsets.shapes_of(model), owners, 2)
    rules = averaging.Rules(layout, [(0, params.interval(), _SYNCHRONISED)])
    return averaging.build(model, params, rules)


def _masks(model: Model, scheme: str) -> dict[int, np.ndarray]:
    """Return id(variable) -> what of it is synchronised."""
    if scheme == "channel":
        masks = channel_masks.masks(model, CHANNELS)
        return {key: mask.astype(bool) for key, mask in masks.items()}
    chosen = {id(v) for block in _blocks(model, scheme) for v in block.variables}
    return {id(v): np.array(id(v) in chosen) for v in model.variables}


def _blocks(model: Model, scheme: str) -> list[Layer]:
    """Return the blocks that a scheme of halves synchronises."""
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
