"""Training in memory, on clients of your own: no settings, no files."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Optional, Union

from tff_partial import runtime
from tff_partial.core import clients as populations
from tff_partial.experiments.participation import (
    LoopOptions,
    Participation,
    Process,
    RoundResult,
    Sampler,
    TierFn,
    one_tier,
)


def simulate(
    process: Process,
    clients: object,
    rounds: int,
    clients_per_round: Optional[int] = None,
    tiers: Union[Sequence[int], TierFn, None] = None,
    seed: int = 0,
    sampler: Optional[Sampler] = None,
    sampling: str = "fixed",
) -> Iterator[RoundResult]:
    """Train a process and yield what each round gives.

    Computations run in this process unless `runtime.set_default` has chosen another runtime.

    Args:
      process: What an algorithm's `build` returns.
      clients: What `tff_partial.clients` returns or takes, such as a list of examples [n, ...] and
        labels [n] of each client.
      rounds: Number of rounds.
      clients_per_round: How many clients train in a round; all by default.
      tiers: Index of each client's tier, where the process has several, or a function (client,
        round) -> index; 0 by default.
      seed: Seed of the sampling and of the clients' batches.
      sampler: (Numbers of the clients, how many, round from 0, seed) -> the numbers of those that
        train; drawn at random by default.
      sampling: Without a sampler, so many are drawn (`fixed`), or each with the probability that
        gives so many on average (`poisson`).

    Yields:
      A `RoundResult`: the server's `state`, the `metrics` and what clients keep. The model is
      `process.get_model_weights(result.state)`.

    Raises:
      ValueError: If a number is out of range.
    """
    population = populations.create(clients)
    count = len(population) if clients_per_round is None else clients_per_round
    if not 1 <= count <= len(population):
        raise ValueError(
            f"clients_per_round must be from 1 to {len(population)}. "
            f"Received: clients_per_round={clients_per_round}"
        )
    tier_of = _tier_fn(tiers, len(population))

    def run() -> Iterator[RoundResult]:
        runtime.set_default_if_unset()
        options = LoopOptions(rounds, count, seed, sampler=sampler, sampling=sampling)
        participation = Participation(process, population, options, tier_of=tier_of)
        state = process.initialize()
        for round_num in range(rounds):
            result = participation.run(state, round_num, participation.cohort(round_num))
            state = result.state
            participation.states.put(result.kept, round_num + 1)
            yield result

    return run()


def _tier_fn(tiers: Union[Sequence[int], TierFn, None], clients: int) -> TierFn:
    """Return (client, round) -> index of its tier."""
    if tiers is None:
        return one_tier
    if callable(tiers):
        return tiers
    if len(tiers) != clients:
        raise ValueError(f"tiers must have {clients} entries. Received: {len(tiers)} entries")
    assigned = tiers
    return lambda client, round_num: assigned[client]
