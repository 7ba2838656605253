"""Who takes part in a round, what clients start from and where they keep it.

Clients of a `LearningProcess` keep nothing. What those of a `StatefulProcess` keep is stored by
client id. With an `AveragingProcess` the clients that are drawn stay active for some rounds; those
of the next period take over what those of the last one kept, the first from the first and so on,
whether or not they are in time to train in its first round.
"""

from __future__ import annotations

import dataclasses
import functools
from collections.abc import Mapping, Sequence
from typing import Callable, NamedTuple, Optional, Protocol, Union

import numpy as np

from tff_partial.core import client_data
from tff_partial.core.types import (
    Array,
    ClientDataset,
    LearningProcess,
    Metrics,
    ServerState,
    Structure,
    Weights,
)
from tff_partial.experiments import client_store, divergence
from tff_partial.processes.averaging import AveragingProcess
from tff_partial.processes.stateful import StatefulProcess

KEPT_RECORDS = 256
NOBODY = 2**63 - 1  # id of a client without examples
Process = Union[LearningProcess, StatefulProcess]
TierFn = Callable[[int, int], int]
"""(Client id, round from 0) -> index of the client's tier."""
Sampler = Callable[[Array, int, int, int], Sequence[int]]
"""(Ids of the clients, how many, round from 0, seed) -> at most so many different ids of them."""


@dataclasses.dataclass(frozen=True)
class LoopOptions:
    """What the round loop does, whatever the algorithm.

    Attributes:
      rounds: Number of rounds.
      clients_per_round: Number of clients that are drawn for a round.
      seed: Seed of the sampling and of the clients' batches.
      eval_every: Rounds between evaluations; the last round is always evaluated.
      checkpoint_every: Rounds between checkpoints; the last round always has one.
      participants: Ids of the clients that can be drawn; all by default.
      client_state_cache: Number of clients whose state is kept in memory, the rest being on disk;
        all by default.
      stop_when_diverged: Whether a loss or weights that are not finite end the run.
      sampler: Draws the clients of a round, at random by default.
      sampling: Without a sampler, so many are drawn (`fixed`), or each with the probability that
        gives so many on average (`poisson`).
    """

    rounds: int
    clients_per_round: int
    seed: int = 0
    eval_every: int = 1
    checkpoint_every: int = 10
    participants: Optional[Array] = None
    client_state_cache: Optional[int] = None
    stop_when_diverged: bool = True
    sampler: Optional[Sampler] = None
    sampling: str = "fixed"


class ClientArrays(Protocol):
    """The clients' data."""

    @property
    def num_clients(self) -> int: ...

    def client(self, client: int) -> tuple[Array, Array]:
        """Return the client's examples and labels."""


class RoundResult(NamedTuple):
    """What a round gives.

    Attributes:
      state: The server's state.
      metrics: Those of the process, by its parts (`client_work`, `finalizer`).
      kept: Client id -> what the client keeps, where it has changed.
    """

    state: ServerState
    metrics: Mapping[str, Metrics]
    kept: Mapping[int, Structure]


def one_tier(client: int, round_num: int) -> int:
    """Return the tier of a client where all have the same."""
    return 0


def sample_clients(
    population: Union[int, Array], cohort: int, round_num: int, seed: int
) -> np.ndarray:
    """Draw `cohort` different clients, of so many or of these ids."""
    generator = np.random.default_rng([seed, round_num])
    return generator.choice(population, cohort, replace=False)


def poisson_sample(
    population: Union[int, Array], cohort: int, round_num: int, seed: int
) -> np.ndarray:
    """Draw each client, of so many or of these ids, with the probability cohort / their number."""
    ids = np.arange(population) if isinstance(population, int) else population
    generator = np.random.default_rng([seed, round_num])
    return ids[generator.random(len(ids)) < cohort / len(ids)]


class Participation:
    """Draws clients, calls the process and knows what clients keep, with checkpoints in `folder`.

    Attributes:
      models: Label -> function from the server's state to a model that is evaluated.
      states: What clients keep, by id.
    """

    def __init__(
        self,
        process: Process,
        data: ClientArrays,
        options: LoopOptions,
        folder: str = "",
        tier_of: TierFn = one_tier,
    ) -> None:
        self._process, self._data, self._options = process, data, options
        self._tier_of = tier_of
        self._stateful = process if isinstance(process, StatefulProcess) else None
        self._averaging = process if isinstance(process, AveragingProcess) else None
        self.models: dict[str, Callable[[ServerState], Weights]] = {"": process.get_model_weights}
        initial: Structure = ()
        precision = "float32"
        if self._stateful is not None:
            others = self._stateful.other_models.items()
            self.models |= {f"_{label}": get_weights for label, get_weights in others}
            initial = self._stateful.initial_client_state()
            precision = self._stateful.record_precision
        cache = options.client_state_cache
        self.states = client_store.ClientStates(folder, initial, cache, precision)
        # A record serves every round; making one takes a millisecond.
        self._record = functools.lru_cache(maxsize=KEPT_RECORDS)(self._create_record)

    def cohort(self, round_num: int) -> list[int]:
        """Return the ids of the clients that are drawn for a round."""
        options, period = self._options, self._averaging.rounds_active if self._averaging else 1
        who: Union[int, Array] = self._data.num_clients
        if options.participants is not None:
            who = options.participants
        drawn = round_num // period if period else 0
        if options.sampler is not None:
            return self._sampled(options.sampler, who, drawn)
        draw = poisson_sample if options.sampling == "poisson" else sample_clients
        ids = draw(who, options.clients_per_round, drawn, options.seed)
        return [int(i) for i in ids]

    def _sampled(self, sampler: Sampler, who: Union[int, Array], round_num: int) -> list[int]:
        """Return whom a user's sampler draws; raise a ValueError if it cannot be so."""
        everyone = np.arange(who) if isinstance(who, int) else who
        most = self._options.clients_per_round
        ids = [int(i) for i in sampler(everyone, most, round_num, self._options.seed)]
        known = len({*ids}) == len(ids) and bool(np.isin(ids, everyone).all())
        # Where clients stay active, each new one takes the place of one before it.
        least = most if self._averaging is not None else 1
        if not (known and least <= len(ids) <= most):
            raise ValueError(
                f"sampler must return from {least} to {most} different ids of clients. "
                f"Received: {ids[:10]} in round {round_num + 1}"
            )
        return ids

    def run(
        self, state: ServerState, round_num: int, clients: Sequence[int], is_evaluated: bool = False
    ) -> RoundResult:
        """Run a round with these clients; local models are measured if it is evaluated."""
        if self._stateful is None:
            output = self._process.next(state, self._records(clients or [NOBODY], round_num))
            return RoundResult(output.state, output.metrics, {})
        ids = self._trained(self._stateful, clients, round_num)
        uploads = [i < len(clients) for i in range(len(ids))]
        handed_over = self._hand_over(state, round_num)
        values = [handed_over[i] if i in handed_over else self.states.get(i) for i in ids]
        if self._averaging is not None:
            states = self._averaging.client_states(ids, uploads, values, is_evaluated)
        else:
            states = self._stateful.client_states(ids, uploads, values)
        output = self._stateful.next(state, states, self._records(ids, round_num))
        kept = {**handed_over, **client_store.by_id(output.client_states)}
        kept.pop(NOBODY, None)
        return RoundResult(output.state, output.metrics, kept)

    def _trained(
        self, process: StatefulProcess, clients: Sequence[int], round_num: int
    ) -> list[int]:
        """Return who trains: the clients, others that do not upload, nobody."""
        who = self._options.participants
        everyone = range(self._data.num_clients) if who is None else who.tolist()
        others = process.unselected(clients, self.cohort(round_num + 1), everyone)
        ids = [*clients, *others] or [NOBODY]
        # Runtimes keep an executor for each size of a cohort: let there be few.
        return ids + [NOBODY] * (-len(ids) % self._options.clients_per_round)

    def find_diverged(
        self, state: ServerState, round_num: int, clients: Sequence[int], result: RoundResult
    ) -> list[int]:
        """Return the clients whose round is not finite.

        Each trains once more, alone, where clients keep nothing or an average has spread it to all.
        """
        if self._stateful is not None and self._averaging is None:
            kept = result.kept.items()
            return sorted(i for i, value in kept if not divergence.is_finite(value))

        def diverges_alone(client: int) -> bool:
            own = self.run(state, round_num, [client])
            return bool(divergence.find(own.state, own.kept, own.metrics["client_work"]))

        return [client for client in clients if diverges_alone(client)]

    def _hand_over(self, state: ServerState, round_num: int) -> dict[int, Structure]:
        """Return what those keep who become active in this round, and those who were until then."""
        process = self._averaging
        period = process.rounds_active if process else 0
        if process is None or not period or not round_num or round_num % period:
            return {}
        before, now = self.cohort(round_num - 1), self.cohort(round_num)
        own = {i: self.states.get(i) for i in {*before, *now}}
        left = {i: process.left_behind(own[i], self.states.initial) for i in before}
        models = [own[i] if i in self.states else None for i in before]
        taken = {i: process.hand_over(state, own[i], model) for i, model in zip(now, models)}
        return {**left, **taken}

    def _records(self, ids: Sequence[int], round_num: int) -> list[ClientDataset]:
        tiers = [0 if i == NOBODY else self._tier_of(i, round_num) for i in ids]
        return [self._record(i, tier) for i, tier in zip(ids, tiers)]

    def _create_record(self, client: int, tier: int) -> ClientDataset:
        if client == NOBODY:
            x, y = self._data.client(0)
            return client_data.create_record(x[:0], y[:0], NOBODY)
        return client_data.create_record(
            *self._data.client(client), client, self._options.seed, tier
        )
