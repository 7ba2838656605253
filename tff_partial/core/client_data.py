"""A client's record: what a process receives for it, the same in every round."""

from __future__ import annotations

import collections
from collections.abc import Sequence
from typing import Optional

import numpy as np

from tff_partial.core.lazy import tf
from tff_partial.core.types import Array, ClientDataset, Record, Tensor


def create_record(
    x: Array, y: Array, client_id: int = 0, seed: int = 0, tier: int = 0
) -> ClientDataset:
    """Return a `tf.data.Dataset` of exactly one element, the client's record.

    The record's own seed [2] is a hash of (seed, client_id).

    Args:
      x: All of the client's examples [n, ...], of the model's `input_dtype`.
      y: Labels [n].
      client_id: Number of the client.
      seed: The run's seed.
      tier: Index of the client's tier.

    Raises:
      ValueError: If there are not as many labels as examples.
    """
    if len(x) != len(y):
        raise ValueError(
            f"a record must have one label for each example. Received: {len(x)} examples and "
            f"{len(y)} labels"
        )
    words = np.random.SeedSequence([seed, client_id]).generate_state(2)
    record = collections.OrderedDict(
        x=x,
        y=np.asarray(y, np.int32),
        client_id=np.int64(client_id),
        tier=np.int32(tier),
        seed=words.astype(np.int32),
    )
    return tf.data.Dataset.from_tensors(record)


def create_records(
    arrays: Sequence[tuple[Array, Array]], seed: int = 0, tiers: Optional[Sequence[int]] = None
) -> list[ClientDataset]:
    """Return the record of each client from its (x, y), for the `next` of a process.

    Args:
      arrays: Examples and labels of each client, whose number is its position.
      seed: The run's seed.
      tiers: Index of each client's tier; 0 by default.
    """
    numbered = enumerate(zip(arrays, tiers or [0] * len(arrays)))
    return [create_record(x, y, client, seed, tier) for client, ((x, y), tier) in numbered]


def in_round(record: Record, round_num: Tensor) -> Record:
    """Return the record with the seed of a round, in the graph.

    A client draws other batches in every round, and the same ones when the round is repeated.
    """
    seed = tf.random.experimental.stateless_fold_in(record["seed"], round_num)
    return collections.OrderedDict(record, seed=seed)
