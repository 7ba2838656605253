"""The round loop: sampling, evaluation, progress, metrics, checkpoints.

For round t = 1 .. rounds:  draw the cohort, build its records, call the process, evaluate when due,
write a row of metrics.csv, checkpoint when due. All randomness is a function of (seed, t), so a
run that goes on from a checkpoint repeats what it would have done.
"""

from __future__ import annotations

import collections
import dataclasses
import functools
import os
import signal
import sys
import threading
import time
from collections.abc import Mapping, Sequence
from types import FrameType
from typing import Any, Callable, Optional, Union

import numpy as np

from tff_partial.core import client_data
from tff_partial.core.evaluation import Evaluation
from tff_partial.core.lazy import tf
from tff_partial.experiments import checkpoints, client_store, divergence
from tff_partial.results import metrics_file

KEPT_RECORDS = 256
NOBODY = 2**63 - 1  # id of a client without examples
TIER_ACCURACY = "train_accuracy_"
COLUMNS = ("round", "train_loss", "train_accuracy", "test_loss", "test_accuracy", "seconds")


@dataclasses.dataclass(frozen=True)
class Plan:
    """What the loop does, whatever the algorithm.

    Attributes:
      rounds: Number of rounds.
      clients_per_round: Size of the cohort.
      seed: Of the sampling and of the clients' batches.
      eval_every: Rounds between evaluations; the last round is always evaluated.
      checkpoint_every: Rounds between checkpoints; the last round always has one.
      participants: Ids of the clients that can be drawn; all by default.
      client_state_cache: Number of clients whose state is kept in memory, the rest being on disk;
        all by default.
      stop_when_diverged: Whether a loss or weights that are not finite end the run.
    """

    rounds: int
    clients_per_round: int
    seed: int = 0
    eval_every: int = 1
    checkpoint_every: int = 10
    participants: Optional[np.ndarray] = None
    client_state_cache: Optional[int] = None
    stop_when_diverged: bool = True


class Interrupted(Exception):
    """The user or the system asked the run to stop; its files are complete up to `rounds`."""

    def __init__(self, rounds: int, signal_number: int) -> None:
        super().__init__(f"stopped after round {rounds}")
        self.rounds = rounds
        self.signal_number = signal_number


def sample_clients(
    population: Union[int, np.ndarray], cohort: int, round_num: int, seed: int
) -> np.ndarray:
    """The cohort of a round: `cohort` different ones of so many clients, or of these ids."""
    generator = np.random.default_rng([seed, round_num])
    return generator.choice(population, cohort, replace=False)


def train(
    process: Any,
    data: Any,
    evaluate: Callable[[Any], Evaluation],
    plan: Plan,
    output_dir: str,
    on_round: Callable[[int, Mapping[str, Any]], None] = lambda round_num, row: None,
    tier_of: Callable[[int, int], int] = lambda client_id, round_num: 0,
    account: Callable[[Sequence[int], int], tuple[Sequence[int], Mapping[str, Any]]] = (
        lambda ids, round_num: (ids, {})
    ),
) -> Any:
    """Trains, going on from the last checkpoint in `output_dir` if there is one.

    Args:
      process: A `tff.learning.templates.LearningProcess` over records, or a `StatefulProcess`.
      data: The clients' data: `num_clients` and `client(i) -> (x, y)`.
      evaluate: Model weights -> loss and metrics on held-out data, `accuracy` among them.
      plan: What to do.
      output_dir: Where metrics.csv, tensorboard/, checkpoints/ and client_states/ go.
      on_round: Called with the number of rounds done and the row of metrics, and once before
        the first round with the number that is already done and an empty row.
      tier_of: (Client id, round from 0) -> index of its tier.
      account: (The cohort, round from 0) -> who of it is in time to be counted, and further columns
        of the row.

    Returns:
      The final model weights.

    Raises:
      Interrupted: On SIGINT or SIGTERM, after the round under way and its checkpoint.
      DivergedError: If the loss, the weights or what clients keep are not finite; the row of that
        round is written, and the state before it is saved.
      CheckpointError: If the files of an earlier start are damaged or of another version.
    """
    outputs = Outputs(output_dir)
    return _rounds(process, data, evaluate, plan, outputs, on_round, tier_of, account)


def _rounds(
    process: Any,
    data: Any,
    evaluate: Callable[[Any], Evaluation],
    plan: Plan,
    outputs: Outputs,
    on_round: Callable[[int, Mapping[str, Any]], None],
    tier_of: Callable[[int, int], int],
    account: Callable[[Sequence[int], int], tuple[Sequence[int], Mapping[str, Any]]],
) -> Any:
    population = data.num_clients if plan.participants is None else plan.participants
    everyone = range(data.num_clients) if plan.participants is None else plan.participants.tolist()
    state = process.initialize()

    def sample(period: int) -> list[int]:
        ids = sample_clients(population, plan.clients_per_round, period, plan.seed)
        return [int(i) for i in ids]

    clients = create_clients(process, plan, outputs.folder, sample)
    done, state = outputs.restore(state, clients)
    output = None
    on_round(done, {})

    # A record serves every round; making one takes a millisecond.
    @functools.lru_cache(maxsize=KEPT_RECORDS)
    def record_of(client_id: int, tier: int) -> Any:
        if client_id == NOBODY:
            # A client without examples: nothing it does is counted.
            x, y = data.client(0)
            return client_data.create_record(x[:0], y[:0], NOBODY)
        x, y = data.client(client_id)
        return client_data.create_record(x, y, client_id, plan.seed, tier)

    def record_in(round_num: int, client_id: int) -> Any:
        return record_of(client_id, tier_of(client_id, round_num) if client_id != NOBODY else 0)

    with _StopSignals() as stop:
        try:
            for round_num in range(done, plan.rounds):
                started = time.monotonic()
                record = functools.partial(record_in, round_num)
                in_time, columns = account(clients.cohort(round_num), round_num)
                is_tested = _is_due(round_num + 1, plan.eval_every, plan.rounds)
                result = clients.next(state, round_num, list(in_time), everyone, record, is_tested)
                tests = {}
                if is_tested:
                    columns = {**columns, **clients.measure(result)}
                    tests = {
                        label: evaluate(get_weights(result.state))
                        for label, get_weights in clients.models.items()
                    }
                row = _row(result.metrics, tests, time.monotonic() - started, columns)
                outputs.write_row(round_num + 1, row)
                diverged = divergence.find(result, row) if plan.stop_when_diverged else ""
                if diverged:
                    who = clients.find_diverged(state, result, list(in_time), record)
                    raise divergence.DivergedError(round_num + 1, diverged, who, list(in_time))
                state, done, output = result.state, round_num + 1, result
                clients.put(output, done)
                if _is_due(done, plan.checkpoint_every, plan.rounds):
                    outputs.checkpoint(done, state, clients)
                on_round(done, row)
                if stop.signal and done < plan.rounds:
                    raise Interrupted(done, stop.signal)
        except BaseException:
            # Whatever ends the run, and wherever, no finished round is lost.
            clients.put(output, done)
            outputs.checkpoint(done, state, clients)
            raise
    return process.get_model_weights(state)


def _is_due(done: int, every: int, rounds: int) -> bool:
    return done % every == 0 or done == rounds


def _row(
    metrics: Any, tests: Mapping[str, Evaluation], seconds: float, columns: Mapping[str, Any]
) -> Mapping[str, Any]:
    """A row of metrics.csv; what was not evaluated in this round is empty."""
    tested: dict[str, Any] = {"test_loss": "", "test_accuracy": ""}
    for label, test in tests.items():
        tested[f"test_loss{label}"] = test.loss
        tested |= {f"test_{name}{label}": value for name, value in test.metrics.items()}
    trained = dict(metrics["client_work"])
    if not trained.get("train_examples", 1):
        # Nobody was in time: there is no loss, not one of zero.
        trained = dict.fromkeys(trained, "")
    # A tier without examples in the round has no accuracy.
    missing = [n for n, v in trained.items() if n.startswith(TIER_ACCURACY) and v != v]
    trained |= dict.fromkeys(missing, "")
    return collections.OrderedDict(**trained, **tested, seconds=round(seconds, 4), **columns)


def create_clients(
    process: Any, plan: Plan, folder: str, sample: Callable[[int], list[int]]
) -> _Stateless:
    """How the loop calls the process, and where its clients' states are kept."""
    if not hasattr(process, "initial_client_state"):
        return _Stateless(process, sample)
    kind = _Active if hasattr(process, "rounds_active") else _Stateful
    return kind(process, sample, plan, os.path.join(folder, "client_states"))


class _Stateless:
    """How the loop calls a `LearningProcess`."""

    def __init__(self, process: Any, sample: Callable[[int], list[int]]) -> None:
        self._process, self._sample = process, sample
        self.models = {"": process.get_model_weights}

    def cohort(self, round_num: int) -> list[int]:
        """Who is drawn."""
        return self._sample(round_num)

    def next(
        self,
        state: Any,
        round_num: int,
        selected: list[int],
        everyone: Sequence[int],
        record: Callable[[int], Any],
        measured: bool = False,
    ) -> Any:
        """Runs a round; `measure` has something to say if it is to be measured."""
        return self._process.next(state, [record(i) for i in selected or [NOBODY]])

    def measure(self, output: Any) -> Mapping[str, Any]:
        """Further columns of a round that was measured."""
        return {}

    def put(self, output: Any, done: int) -> None:
        """Keeps what clients keep. Can be repeated."""

    def find_diverged(
        self, state: Any, output: Any, selected: list[int], record: Callable[[int], Any]
    ) -> list[int]:
        """Finds the clients whose round is not finite: each trains once more, alone."""
        alone = ((i, self._process.next(state, [record(i)])) for i in selected)
        return [i for i, found in alone if divergence.find(found, found.metrics["client_work"])]

    def write(self) -> np.ndarray:
        """See `ClientStates`."""
        return checkpoints.NO_CLIENT_FILES

    def forget_replaced(self) -> None:
        """See `ClientStates`."""

    def restore(
        self,
        client_files: np.ndarray = checkpoints.NO_CLIENT_FILES,
        older_files: np.ndarray = checkpoints.NO_CLIENT_FILES,
    ) -> None:
        """See `ClientStates`."""


class _Stateful(_Stateless):
    """How the loop calls a `StatefulProcess`, and keeps its clients' states."""

    def __init__(
        self, process: Any, sample: Callable[[int], list[int]], plan: Plan, folder: str
    ) -> None:
        super().__init__(process, sample)
        self.models |= {f"_{label}": get for label, get in process.other_models.items()}
        self._states = client_store.ClientStates(
            folder,
            process.initial_client_state(),
            plan.client_state_cache,
        )
        self._cohort = plan.clients_per_round
        self.write = self._states.write  # type: ignore[method-assign]
        self.forget_replaced = self._states.forget_replaced  # type: ignore[method-assign]
        self.restore = self._states.restore  # type: ignore[method-assign]

    def next(
        self,
        state: Any,
        round_num: int,
        selected: list[int],
        everyone: Sequence[int],
        record: Callable[[int], Any],
        measured: bool = False,
    ) -> Any:
        upcoming = self._sample(round_num + 1)
        ids = [*selected, *self._process.unselected(selected, upcoming, everyone)] or [NOBODY]
        # Runtimes keep an executor for each size of a cohort: let there be few.
        ids += [NOBODY] * (-len(ids) % self._cohort)
        uploads = [i < len(selected) for i in range(len(ids))]
        states = self._start(state, round_num, ids, uploads, measured)
        return self._process.next(state, states, [record(i) for i in ids])

    def _start(
        self, state: Any, round_num: int, ids: list[int], uploads: list[bool], measured: bool
    ) -> list[Any]:
        """What clients start the round from."""
        return self._process.client_states(ids, uploads, [self._states.get(i) for i in ids])

    def find_diverged(
        self, state: Any, output: Any, selected: list[int], record: Callable[[int], Any]
    ) -> list[int]:
        kept = client_store.by_id(output.client_states)
        kept.pop(NOBODY, None)
        return sorted(i for i, value in kept.items() if not divergence.is_finite(value))

    def put(self, output: Any, done: int) -> None:
        if output is not None:
            found = client_store.by_id(output.client_states)
            found.pop(NOBODY, None)
            self._states.put(found, done)


class _Active(_Stateful):
    """The same for an `AveragingProcess`: clients stay active for some rounds.

    Those of the next period take over what those of the last one kept, the first from the first
    and so on, whether or not they are in time to train in its first round.
    """

    _handed_over: tuple[int, dict[int, Any]] = (0, {})  # the rounds done with it, and what

    def cohort(self, round_num: int) -> list[int]:
        rounds = self._process.rounds_active
        return self._sample(round_num // rounds if rounds else 0)

    def _start(
        self, state: Any, round_num: int, ids: list[int], uploads: list[bool], measured: bool
    ) -> list[Any]:
        # Not put before the round is done: if it fails, it is repeated from what there was.
        handed_over = self._hand_over(state, round_num)
        self._handed_over = round_num + 1, handed_over
        values = [handed_over.get(i) or self._states.get(i) for i in ids]
        return self._process.client_states(ids, uploads, values, measured)

    def _hand_over(self, state: Any, round_num: int) -> dict[int, Any]:
        """What those keep who become active in this round, and those who were until then."""
        rounds = self._process.rounds_active
        if not rounds or not round_num or round_num % rounds:
            return {}
        before, now = self.cohort(round_num - 1), self.cohort(round_num)
        kept = {i: self._states.get(i) for i in {*before, *now}}
        left = {i: self._process.left_behind(kept[i], self._states.initial) for i in before}
        models = [kept[i] if i in self._states else None for i in before]
        taken = {i: self._process.hand_over(state, kept[i], m) for i, m in zip(now, models)}
        return {**left, **taken}

    def put(self, output: Any, done: int) -> None:
        round_num, handed_over = self._handed_over
        if output is not None and round_num == done:
            self._states.put(handed_over, done)
        super().put(output, done)

    def find_diverged(
        self, state: Any, output: Any, selected: list[int], record: Callable[[int], Any]
    ) -> list[int]:
        """As without states: in what they return, an average has spread it to all."""

        def alone(client: int) -> Any:
            value = self._handed_over[1].get(client) or self._states.get(client)
            states = self._process.client_states([client], [True], [value])
            return self._process.next(state, states, [record(client)])

        rounds = ((i, alone(i)) for i in selected)
        return [i for i, found in rounds if divergence.find(found, found.metrics["client_work"])]

    def measure(self, output: Any) -> Mapping[str, Any]:
        found = self._process.measure(output)
        is_empty = not output.metrics["client_work"]["train_examples"]
        return dict.fromkeys(found, "") if is_empty else found


class Outputs:
    """metrics.csv, TensorBoard and checkpoints.

    Each file appears complete or not at all; what a killed run left of a write is removed. Folders
    are made here and not again, so that a run whose folder is removed notices it.
    """

    def __init__(self, output_dir: str) -> None:
        self.folder = output_dir
        folder = os.path.join(output_dir, "checkpoints")
        os.makedirs(folder, exist_ok=True)
        self._checkpoints = checkpoints.Checkpoints(folder)
        self._metrics = metrics_file.MetricsFile(os.path.join(output_dir, "metrics.csv"), COLUMNS)
        self._tensorboard = tf.summary.create_file_writer(os.path.join(output_dir, "tensorboard"))

    def restore(self, initial_state: Any, clients: _Stateless) -> tuple[int, Any]:
        """Returns the number of rounds done and the state after them; clients go back to it too.

        Raises:
          CheckpointError: If the files are damaged or of another version; they stay as they are.
        """
        restored = self._checkpoints.restore(initial_state)
        self._metrics.restore(restored.done)
        clients.restore(restored.client_files, restored.older_files)
        return restored.done, restored.state

    def write_row(self, done: int, row: Mapping[str, Any]) -> None:
        """Adds a row; those of later rounds, of an earlier start, are gone then."""
        self._metrics.write(done, row)
        with self._tensorboard.as_default():
            for name, value in row.items():
                if not isinstance(value, str):  # an empty cell
                    tf.summary.scalar(name, value, step=done)

    def checkpoint(self, done: int, state: Any, clients: _Stateless) -> None:
        """Saves the state of server and clients unless it is saved already.

        The server's is the last to be written: it says which of the clients' files count.
        """
        if done in self._checkpoints.rounds or done == 0:
            return
        client_files = clients.write()
        self._metrics.sync()
        self._checkpoints.save(done, state, client_files)
        clients.forget_replaced()


class _StopSignals:
    """Remembers the first SIGINT or SIGTERM; a second one ends the process as usual."""

    def __init__(self) -> None:
        self.signal = 0
        self._previous: dict[int, Any] = {}

    def __enter__(self) -> _StopSignals:
        if threading.current_thread() is threading.main_thread():
            for number in (signal.SIGINT, signal.SIGTERM):
                self._previous[number] = signal.signal(number, self._remember)
        return self

    def __exit__(self, *unused: Any) -> None:
        for number, handler in self._previous.items():
            signal.signal(number, handler)
        self._previous = {}

    def _remember(self, number: int, frame: Optional[FrameType]) -> None:
        self.signal = number
        self.__exit__()
        print("\nstopping after this round; once more stops at once", file=sys.stderr)
