"""What is averaged when, in a round of `averaging`."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from typing import Callable, Optional

from tff_partial.core.model import ModelSpec
from tff_partial.core.types import Metrics, Structure, Tensor
from tff_partial.processes import parameter_subsets
from tff_partial.processes.parameter_subsets import Layout

NOTHING = -1  # the subset of an average that has not been made


@dataclasses.dataclass(frozen=True)
class Intervals:
    """How long the rounds are, where that varies: the server's state says it.

    Attributes:
      initial: () -> the state before the first round.
      segment: (state, round) -> the segment of the round, an index of `Rules.segments`.
      next: (state, round, metrics of the clients) -> the state after the round.
    """

    initial: Callable[[], Structure]
    segment: Callable[[Structure, Tensor], Tensor]
    next: Callable[[Structure, Tensor, Metrics], Structure]


@dataclasses.dataclass(frozen=True)
class Rules:
    """What is averaged when.

    Attributes:
      layout: The subsets.
      segments: (First step, step after the last, subset) of each segment of a round.
      variance_reduced: Whether clients keep VRL-SGD's correction.
      pull: Weight of FedProx's term (mu), which pulls each parameter to its last average; clients
        keep these averages then, as `anchor`.
      intervals: If given, a round makes one of the segments alone, which starts the round.
    """

    layout: Layout
    segments: Sequence[tuple[int, int, int]]
    variance_reduced: bool = False
    pull: float = 0.0
    intervals: Optional[Intervals] = None

    @property
    def interval(self) -> int:
        """Number of steps of a round (tau)."""
        return self.segments[-1][1]

    def by_step(self) -> Rules:
        """Return the same in segments of one step; nothing is averaged after some of them."""
        segments = [
            (step, step + 1, subset if step + 1 == stop else NOTHING)
            for first, stop, subset in self.segments
            for step in range(first, stop)
        ]
        return dataclasses.replace(self, segments=segments)


def varying(model: ModelSpec, longest: int, intervals: Intervals) -> Rules:
    """Return the rules of periodic averaging with rounds of 1 to `longest` steps.

    Segment s is a round of s + 1 steps.
    """
    segments = [(0, steps, 0) for steps in range(1, longest + 1)]
    return Rules(parameter_subsets.whole_model(model), segments, intervals=intervals)
