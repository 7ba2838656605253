"""FedUMF's rule: a client that is selected fuses the update that it could not upload a round ago.

`algorithms.fedumf` has the pseudo-code. What a client stores is its update and the round of it: one
that uploads has nothing to fuse in the next round, one that was drawn and too late has.
"""

from __future__ import annotations

import collections
from collections.abc import Sequence
from typing import Callable

from tff_partial.core.lazy import tf
from tff_partial.core.types import Structure
from tff_partial.core.vectors import Vector, choose
from tff_partial.processes.stateful_rules import Client

_NEVER = -2


def check_coefficient(name: str, value: float) -> None:
    """Raise a ValueError if the value is no fusion coefficient."""
    if not 0 < value <= 1:
        raise ValueError(f"{name} must be in (0, 1]. Received: {name}={value}")


def nothing(x: Vector) -> Structure:
    """Return what a client stores that has nothing to fuse."""
    return collections.OrderedDict(update=x.zeros(), round=tf.constant(_NEVER))


def fused_start(client: Client, stored: Structure, alpha: float) -> Vector:
    """Return the model that a client starts from."""
    eta, round_num = client.learning_rate, client.round_num
    ratio = eta(round_num) / eta(round_num - 1)
    fuses = tf.logical_and(client.selected, tf.equal(stored["round"], round_num - 1))
    fused = client.weights + (alpha * ratio) * stored["update"]
    return choose(fuses, fused, client.weights)


def stored_after(client: Client, start: Vector, model: Vector) -> Structure:
    """Return what a client stores after a round: nothing if it has uploaded its update."""
    kept = collections.OrderedDict(update=model - start, round=client.round_num)
    return choose(client.selected, nothing(start), kept)


def also_training(literal: bool) -> Callable[..., Sequence[int]]:
    """Return the rule who trains beside the selected clients (`Rules.unselected`)."""

    def clients(
        selected: Sequence[int], upcoming: Sequence[int], everyone: Sequence[int]
    ) -> Sequence[int]:
        candidates, chosen = everyone if literal else upcoming, set(selected)
        return [i for i in candidates if i not in chosen]

    return clients
