"""Who keeps what: rules that choose the channels of a sub-model (`submodel_process.Rule`).

Indices come sorted, so that a client that keeps everything trains the model itself.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from tff_partial.core.lazy import tf
from tff_partial.processes.submodel import Request, Rule
from tff_partial.submodels.groups import Channels

_DRAWS = 0x5B  # keeps the choice of channels apart from that of batches


def ordered(channels: Channels) -> Rule:
    """The first channels of each group (HeteroFL)."""
    return lambda request: [tf.range(k) for k in request.sizes]


def rolling(channels: Channels) -> Rule:
    """A window that starts at the round's number and wraps around (FedRolex)."""

    def rule(request: Request) -> list[Any]:
        return [
            tf.sort((request.round_num + tf.range(k)) % group.size)
            for k, group in zip(request.sizes, channels.groups)
        ]

    return rule


def random(channels: Channels) -> Rule:
    """Channels drawn uniformly, for each client and round anew (Federated Dropout)."""

    def rule(request: Request) -> list[Any]:
        seeds = [_seed(request, i) for i in range(len(channels.groups))]
        keys = [tf.random.stateless_uniform([g.size], s) for g, s in zip(channels.groups, seeds)]
        return top(keys, request.sizes)

    return rule


def sampled(scores: Sequence[Any], request: Request, temperature: float) -> list[Any]:
    """Channels drawn without replacement with probabilities softmax(score / temperature).

    By the Gumbel trick: the largest of score / temperature + Gumbel noise. At temperature 0 those
    of the largest scores.
    """
    if not temperature:
        return top(scores, request.sizes)
    keys = []
    for i, score in enumerate(scores):
        uniform = tf.random.stateless_uniform([score.shape[0]], _seed(request, i), 1e-30, 1.0)
        keys.append(score / temperature - tf.math.log(-tf.math.log(uniform)))
    return top(keys, request.sizes)


def top(keys: Sequence[Any], sizes: Sequence[int]) -> list[Any]:
    """The indices of the largest keys of each group; of equal ones the first."""
    return [tf.sort(tf.math.top_k(key, k).indices) for key, k in zip(keys, sizes)]


def _seed(request: Request, group: int) -> Any:
    fold_in = tf.random.experimental.stateless_fold_in
    return fold_in(fold_in(request.record["seed"], _DRAWS), group)
