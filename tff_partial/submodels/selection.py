"""Rules that choose the channels of a sub-model.

Indices come sorted, so that a client that keeps everything trains the model itself.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Callable, NamedTuple, Optional, Union

import numpy as np

from tff_partial.core.lazy import tf, tff
from tff_partial.core.types import Record, Tensor, Weights
from tff_partial.submodels.groups import Channels
from tff_partial.submodels.neurons import Axis

_DRAWS = 0x5B  # keeps the choice of channels apart from that of batches


class Request(NamedTuple):
    """What a rule may look at to choose a client's channels.

    Attributes:
      sizes: How many channels to keep of each group.
      weights: The server's weights.
      record: The client's data, with the seed of the round.
      round_num: Number of the round, from 0.
    """

    sizes: Sequence[int]
    weights: Weights
    record: Record
    round_num: Tensor


# Request -> indices of the channels to keep, int32 [size] for each group.
Rule = Callable[[Request], list[Tensor]]
# Makes the rule of a model with these channel groups, in the graph of a client.
CreateRule = Callable[[Channels], Rule]
# Round -> for each group the channels that are kept, or the share of them.
ExpectedKept = Callable[[Tensor], Sequence[Union[Tensor, float]]]


def ordered(channels: Channels) -> Rule:
    """Keep the first channels of each group (HeteroFL)."""
    return lambda request: [tf.range(k) for k in request.sizes]


def rolling(channels: Channels) -> Rule:
    """Keep a window that starts at the round's number and wraps around (FedRolex)."""

    def rule(request: Request) -> list[Tensor]:
        return [
            tf.sort((request.round_num + tf.range(k)) % group.size)
            for k, group in zip(request.sizes, channels.groups)
        ]

    return rule


def random(channels: Channels) -> Rule:
    """Draw channels uniformly, for each client and round anew (Federated Dropout)."""

    def rule(request: Request) -> list[Tensor]:
        seeds = [_seed(request, i) for i in range(len(channels.groups))]
        keys = [tf.random.stateless_uniform([g.size], s) for g, s in zip(channels.groups, seeds)]
        return top(keys, request.sizes)

    return rule


def magnitude(channels: Channels) -> Rule:
    """Keep the channels that are made by the weights of the largest mean magnitude."""

    def rule(request: Request) -> list[Tensor]:
        values = [*request.weights.trainable, *request.weights.non_trainable]
        found: list[list[Tensor]] = [[tf.zeros([group.size])] for group in channels.groups]
        for value, axes in zip(values, channels.made):
            if len(axes) > 1:  # a bias says little of its channel
                for group, means in _magnitudes(channels, value, axes):
                    found[group].append(means)
        return top([tf.add_n(parts) for parts in found], request.sizes)

    return rule


def _magnitudes(
    channels: Channels, value: Tensor, axes: Sequence[Optional[Axis]]
) -> Iterator[tuple[int, Tensor]]:
    """Yield the groups that a variable makes, and the mean magnitude of each channel."""
    for place, axis in enumerate(axes):
        if axis is None:
            continue
        means = tf.reduce_mean(tf.abs(value), [i for i in range(len(axes)) if i != place])
        for group in axis.repeats:
            (own,) = np.nonzero(axis.group == group)
            places = tf.constant(axis.channel[own], tf.int32)
            parts = tf.gather(means, own)
            yield group, tf.math.unsorted_segment_mean(parts, places, channels.groups[group].size)


def expected(create_rule: CreateRule, channels: Channels, sizes: Sequence[int]) -> ExpectedKept:
    """Return the round -> what the rule keeps of each group, known without a client's data.

    Of channels that are drawn it is the share that is kept.

    Raises:
      ValueError: If the rule looks at a client's data.
    """
    if create_rule is random:
        return lambda round_num: [k / group.size for k, group in zip(sizes, channels.groups)]
    if create_rule not in (ordered, rolling):
        raise ValueError(
            "aggregation must not be dp where clients choose channels by their data: the choice "
            "tells what they hold. Received: aggregation='dp'"
        )
    nobody = tff.learning.models.ModelWeights([], [])
    return lambda round_num: create_rule(channels)(Request(sizes, nobody, {}, round_num))


def sampled(scores: Sequence[Tensor], request: Request, temperature: float) -> list[Tensor]:
    """Draw channels without replacement with probabilities softmax(score / temperature).

    By the Gumbel trick: the largest of score / temperature + Gumbel noise. At temperature 0, those
    of the largest scores.
    """
    if not temperature:
        return top(scores, request.sizes)
    keys = []
    for i, score in enumerate(scores):
        uniform = tf.random.stateless_uniform([score.shape[0]], _seed(request, i), 1e-30, 1.0)
        keys.append(score / temperature - tf.math.log(-tf.math.log(uniform)))
    return top(keys, request.sizes)


def top(keys: Sequence[Tensor], sizes: Sequence[int]) -> list[Tensor]:
    """Return the indices of the largest keys of each group; of equal keys, the first."""
    return [tf.sort(tf.math.top_k(key, k).indices) for key, k in zip(keys, sizes)]


def _seed(request: Request, group: int) -> Tensor:
    fold_in = tf.random.experimental.stateless_fold_in
    return fold_in(fold_in(request.record["seed"], _DRAWS), group)
