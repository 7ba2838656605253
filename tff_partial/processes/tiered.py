"""A computation whose clients are of several tiers, traced when they are needed.

Where what clients do depends on the round instead, its phase takes the place of the tier: phase
`cycle[round % len(cycle)]`, for all clients.

It is a TFF computation like any other: a runtime that asks for it gets all tiers, of which each
client takes its own. A runtime that knows it (`runtime.in_process`) asks for one tier at a time,
when a client of the tier comes for the first time, and never for those that do not come.
"""

from __future__ import annotations

import functools
from collections.abc import Sequence
from typing import Callable, Optional, Union

from tff_partial.core.lazy import tf, tff
from tff_partial.core.types import ClientDataset, Computation, Record, Structure, Tensor

# A tier by its position, or None for all of them -> the computation.
OfTier = Callable[[Optional[int]], Computation]


def phase(cycle: Sequence[int], round_num: Tensor) -> Tensor:
    """Return the phase of a round."""
    return tf.gather(list(cycle), round_num % len(cycle))


def create(
    first: Computation, of_tier: OfTier, num_tiers: int, cycle: Sequence[int] = ()
) -> Computation:
    """Return (state, clients' records) -> result for all tiers, whose first has been traced.

    Args:
      first: The computation for clients of tier 0.
      of_tier: Traces the computation for clients of a tier; those of other tiers differ from it in
        what clients do and in nothing else.
      num_tiers: The number of tiers, or of phases.
      cycle: The phases, if there are any.
    """
    return _computation_class()(first, of_tier, num_tiers, cycle)


@functools.cache
def _computation_class() -> type:
    class TieredComputation(tff.framework.ConcreteComputation):
        """Has its protocol buffer, that of all tiers, from when it is first read."""

        def __init__(
            self, first: Computation, of_tier: OfTier, num_tiers: int, cycle: Sequence[int]
        ) -> None:
            self._type_signature = first.type_signature
            self._context_stack = tff.framework.get_context_stack()
            self._first = first
            self._of_tier = of_tier
            self._num_tiers = num_tiers
            self._cycle = cycle

        @functools.cached_property
        def _computation_proto(self) -> Structure:
            return tff.framework.ConcreteComputation.get_proto(self._of_tier(None))

        def of_tier(self, tier: int) -> Computation:
            """Return the computation for clients of one tier."""
            return self._of_tier(tier) if tier else self._first

        def tiers_of(self, argument: Structure) -> Sequence[int]:
            """Return the tier of each client in an argument of the computation.

            A client of a tier that is not there is left to the first, whose graph refuses it.
            """
            if self._cycle:
                return [self._cycle[int(argument[0].client_work) % len(self._cycle)]] * len(
                    argument[1]
                )
            tiers = [_tier(dataset) for dataset in argument[1]]
            return [tier if 0 <= tier < self._num_tiers else 0 for tier in tiers]

    return TieredComputation


def _tier(data: Union[ClientDataset, list[Record]]) -> int:
    record = data[0] if isinstance(data, list) else data.get_single_element()
    return int(record["tier"])
