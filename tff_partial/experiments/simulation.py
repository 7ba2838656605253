"""Training in memory, on arrays of your own: no settings, no files."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import NamedTuple, Optional

from tff_partial import runtime
from tff_partial.core.types import Array
from tff_partial.experiments.participation import LoopOptions, Participation, Process, RoundResult


class _Clients(NamedTuple):
    num_clients: int
    arrays: Sequence[tuple[Array, Array]]

    def client(self, client: int) -> tuple[Array, Array]:
        return self.arrays[client]


def simulate(
    process: Process,
    clients: Sequence[tuple[Array, Array]],
    rounds: int,
    clients_per_round: Optional[int] = None,
    tiers: Optional[Sequence[int]] = None,
    seed: int = 0,
) -> Iterator[RoundResult]:
    """Train a process and yield what each round gives.

    Computations run in this process unless `runtime.set_default` has chosen another runtime.

    Args:
      process: What an algorithm's `build` returns.
      clients: Examples [n, ...] and labels [n] of each client.
      rounds: Number of rounds.
      clients_per_round: How many clients train in a round; all by default.
      tiers: Index of each client's tier, where the process has several; 0 by default.
      seed: Seed of the sampling and of the clients' batches.

    Yields:
      A `RoundResult`: the server's `state`, the `metrics` and what clients keep. The model is
      `process.get_model_weights(result.state)`.

    Raises:
      ValueError: If a number is out of range.
    """
    count = len(clients) if clients_per_round is None else clients_per_round
    if not 1 <= count <= len(clients):
        raise ValueError(
            f"clients_per_round must be from 1 to {len(clients)}. "
            f"Received: clients_per_round={clients_per_round}"
        )
    assigned = [0] * len(clients) if tiers is None else tiers
    if len(assigned) != len(clients):
        raise ValueError(
            f"tiers must have {len(clients)} entries. Received: {len(assigned)} entries"
        )

    def run() -> Iterator[RoundResult]:
        runtime.set_default_if_unset()
        participation = Participation(
            process,
            _Clients(len(clients), clients),
            LoopOptions(rounds, count, seed),
            tier_of=lambda client, round_num: assigned[client],
        )
        state = process.initialize()
        for round_num in range(rounds):
            result = participation.run(state, round_num, participation.cohort(round_num))
            state = result.state
            participation.states.put(result.kept, round_num + 1)
            yield result

    return run()
