"""Notices when a run diverges: losses, weights or what clients keep are not finite any more."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from tff_partial.core.lazy import tf

_LOSSES = ("train_loss", "test_loss")
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


def find(output: Any, row: Mapping[str, Any]) -> str:
    """Says what of a round is not finite; empty if everything is.

    Args:
      output: What the process returned: `state`, and `client_states` where clients keep something.
      row: The round's row of metrics.csv.
    """
    losses = {name: value for name, value in row.items() if name.startswith(_LOSSES)}
    wrong = [f"{n}={v}" for n, v in losses.items() if not isinstance(v, str) and not np.isfinite(v)]
    if not is_finite(output.state):
        wrong.append("weights that are not finite")
    elif not all(is_finite(kept["value"]) for kept in getattr(output, "client_states", ())):
        wrong.append("clients' states that are not finite")
    return ", ".join(wrong)


def is_finite(structure: Any) -> bool:
    """Whether all floating-point numbers of a structure are finite."""
    arrays = (np.asarray(value) for value in tf.nest.flatten(structure))
    return all(np.isfinite(a).all() for a in arrays if np.issubdtype(a.dtype, np.floating))


def _listed(ids: Sequence[int]) -> str:
    shown = ", ".join(map(str, ids[:_SHOWN]))
    return f"{shown} and {len(ids) - _SHOWN} more" if len(ids) > _SHOWN else shown
