"""Notices when a run diverges: losses, weights or what clients keep are no longer finite."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np

from tff_partial.core.lazy import tf
from tff_partial.core.types import Row, ServerState, Structure

_LOSSES = ("train_loss", "test_loss", "sampled_test_loss")
_SHOWN = 10


class DivergedError(Exception):
    """A run whose loss or weights are not finite.

    Attributes:
      round_num: The round in which it was noticed, from 1.
    """

    def __init__(
        self, round_num: int, what: str, clients: Sequence[int], cohort: Sequence[int]
    ) -> None:
        who = f"clients {_listed(clients)} of " if clients else ""
        super().__init__(
            f"diverged in round {round_num}: {what}; {who}cohort {_listed(cohort)}; try a smaller "
            "--learning_rate, less --momentum or a --clip_norm such as 1"
        )
        self.round_num = round_num


def find(state: ServerState, kept: Mapping[int, Structure], row: Row) -> str:
    """Say what of a round is not finite, of state, clients' states and row; empty if nothing."""
    losses = {name: value for name, value in row.items() if name.startswith(_LOSSES)}
    numbers = {n: v for n, v in losses.items() if v is not None and not isinstance(v, str)}
    wrong = [f"{name}={value}" for name, value in numbers.items() if not np.isfinite(value)]
    if not is_finite(state):
        wrong.append("weights that are not finite")
    elif not all(map(is_finite, kept.values())):
        wrong.append("clients' states that are not finite")
    return ", ".join(wrong)


def is_finite(structure: Structure) -> bool:
    """Return whether all floating-point numbers of a structure are finite."""
    arrays = (np.asarray(value) for value in tf.nest.flatten(structure))
    return all(np.isfinite(a).all() for a in arrays if np.issubdtype(a.dtype, np.floating))


def _listed(ids: Sequence[int]) -> str:
    shown = ", ".join(map(str, ids[:_SHOWN]))
    return f"{shown} and {len(ids) - _SHOWN} more" if len(ids) > _SHOWN else shown
