"""The round loop.

For round t = 1 .. rounds:  draw the cohort, call the process with its records, evaluate when due,
write a row of metrics.csv, checkpoint when due. All randomness is a function of (seed, t), so a
run that resumes from a checkpoint repeats what it would have done.
"""

from __future__ import annotations

import dataclasses
import os
import sys
import time
from collections.abc import Mapping, Sequence
from typing import Callable, Optional

import numpy as np

from tff_partial.core.evaluation import Evaluation
from tff_partial.core.types import Cell, Row, ServerState, Structure, Weights
from tff_partial.experiments import divergence
from tff_partial.experiments.callbacks import Callback
from tff_partial.experiments.outputs import Outputs
from tff_partial.experiments.participation import (
    ClientArrays,
    LoopOptions,
    Participation,
    Process,
    RoundResult,
    TierFn,
    one_tier,
)
from tff_partial.results.metrics import SAMPLED
from tff_partial.system import interrupts

Evaluate = Callable[[Weights], Evaluation]
TIER_ACCURACY = "train_accuracy_"
_NOT_TESTED: Row = {"test_loss": "", "test_accuracy": "", "test_examples": ""}
# Metrics of a process that become columns: those of clients and of the server in every round, and
# discrepancies after its steps; losses of local models where the round is evaluated.
_EVERY_ROUND, _EVALUATED = ("client_work", "finalizer", "discrepancies"), ("losses",)
# Clients whose update was zeroed or clipped, and the norms; the clip of private aggregation.
_AGGREGATION = ("zeroed_count", "zeroing_norm", "clipped_count", "clipping_norm", "clip")


class Interrupted(Exception):
    """The user or the system asked the run to stop; its files are complete up to `rounds`."""

    def __init__(self, rounds: int, signal_number: int) -> None:
        super().__init__(f"stopped after round {rounds}")
        self.rounds = rounds
        self.signal_number = signal_number


def train(
    process: Process,
    data: ClientArrays,
    evaluate: Evaluate,
    options: LoopOptions,
    output_dir: str,
    callbacks: Sequence[Callback] = (),
    tier_of: TierFn = one_tier,
    evaluate_sample: Optional[Evaluate] = None,
) -> Weights:
    """Train, resuming from the last checkpoint in `output_dir` if there is one.

    Args:
      process: A `tff.learning.templates.LearningProcess` over records, or a `StatefulProcess`.
      data: The clients' data.
      evaluate: Model weights -> loss and metrics on held-out data, `accuracy` among them.
      options: What to do.
      output_dir: Where metrics.csv, checkpoints/ and client_states/ go.
      callbacks: What watches the rounds.
      tier_of: The tier of a client in a round.
      evaluate_sample: As `evaluate`, on some of the held-out data, for rounds before the last;
        their columns are `sampled_test_...`.

    Returns:
      The final model weights.

    Raises:
      Interrupted: On SIGINT or SIGTERM, after the round under way and its checkpoint.
      DivergedError: If the loss, the weights or what clients keep are not finite; the row of that
        round is written, and the state before it is saved.
      CheckpointError: If the files of an earlier start are damaged or of another version.
    """
    folder = os.path.join(output_dir, "client_states")
    participation = Participation(process, data, options, folder, tier_of)
    loop = _Loop(participation, evaluate, options, callbacks, evaluate_sample)
    outputs = Outputs(output_dir, participation.states)
    try:
        done, state = outputs.restore(process.initialize())
        for callback in callbacks:
            callback.on_start(done)
        return process.get_model_weights(loop.run(done, state, outputs))
    except BaseException as error:
        for callback in callbacks:
            callback.on_error(error)
        raise
    finally:
        for callback in callbacks:
            callback.on_end()


@dataclasses.dataclass(frozen=True)
class _Loop:
    participation: Participation
    evaluate: Evaluate
    options: LoopOptions
    callbacks: Sequence[Callback]
    evaluate_sample: Optional[Evaluate]

    def run(self, done: int, state: ServerState, outputs: Outputs) -> ServerState:
        """Run the rounds that are not done; return the server's state after the last."""
        states, kept = self.participation.states, {}
        with interrupts.StopSignals(_say_when, once=True) as stop:
            try:
                for round_num in range(done, self.options.rounds):
                    clients, result, row = self._round(round_num, state)
                    outputs.write_row(round_num + 1, row)
                    wrong = divergence.find(result.state, result.kept, row)
                    diverged = bool(wrong) and self.options.stop_when_diverged
                    if not diverged:
                        state, done, kept = result.state, round_num + 1, {**result.kept}
                        states.put(kept, done)
                        if self._is_due(done, self.options.checkpoint_every):
                            outputs.checkpoint(done, state)
                    for callback in self.callbacks:
                        callback.on_round(round_num + 1, row)
                    if diverged:
                        who = self.participation.find_diverged(state, round_num, clients, result)
                        raise divergence.DivergedError(round_num + 1, wrong, who, clients)
                    if stop.received and done < self.options.rounds:
                        raise Interrupted(done, stop.received)
            except BaseException:
                # Whatever ends the run, and wherever, no finished round is lost.
                states.put(kept, done)
                outputs.checkpoint(done, state)
                raise
        return state

    def _round(self, round_num: int, state: ServerState) -> tuple[list[int], RoundResult, Row]:
        """Return the clients whose updates count, what the round gives and its row."""
        started = time.monotonic()
        clients: Sequence[int] = self.participation.cohort(round_num)
        for callback in self.callbacks:
            clients = callback.on_cohort(round_num, clients)
        is_evaluated = self._is_due(round_num + 1, self.options.eval_every)
        result = self.participation.run(state, round_num, clients, is_evaluated)
        tested = self._test(result, round_num + 1) if is_evaluated else {}
        columns = [_columns_of_process(result, is_evaluated), {**_NOT_TESTED, **tested}]
        columns += [c.on_result(round_num, result, is_evaluated) for c in self.callbacks]
        columns.append({"seconds": round(time.monotonic() - started, 4)})
        return list(clients), result, _joined(columns)

    def _test(self, result: RoundResult, done: int) -> Row:
        """Return loss and metrics on held-out data; before the last round on a sample of them."""
        evaluate, kind = self.evaluate, "test"
        if self.evaluate_sample is not None and done < self.options.rounds:
            evaluate, kind = self.evaluate_sample, SAMPLED
        columns: dict[str, Cell] = {}
        for label, get_weights in self.participation.models.items():
            test = evaluate(get_weights(result.state))
            columns |= {f"{kind}_loss{label}": test.loss, "test_examples": test.examples}
            columns |= {f"{kind}_{name}{label}": value for name, value in test.metrics.items()}
        return columns

    def _is_due(self, done: int, every: int) -> bool:
        return done % every == 0 or done == self.options.rounds


def _columns_of_process(result: RoundResult, is_evaluated: bool) -> Row:
    """Return the metrics of clients and server; empty cells where there is no value.

    If nobody was in time, there is no loss, not one of zero; a tier without examples in the round
    has no accuracy.
    """
    wanted = (*_EVERY_ROUND, *(_EVALUATED if is_evaluated else ()))
    reported = {part: result.metrics.get(part) for part in wanted}
    metrics = {part: dict(v) for part, v in reported.items() if isinstance(v, Mapping)}
    nobody_trained = not metrics["client_work"].get("train_examples", 1)
    for part, values in metrics.items():
        for name, value in values.items():
            is_missing = name.startswith(TIER_ACCURACY) and np.isnan(value)
            if is_missing or (nobody_trained and part != "finalizer"):
                values[name] = ""
    return _joined([*metrics.values(), aggregation_columns(result.metrics.get("aggregator"))])


def aggregation_columns(measurements: Structure) -> Row:
    """Return what TFF's aggregators measure that is worth a column."""
    found: dict[str, Cell] = {}
    for name, value in measurements.items() if isinstance(measurements, Mapping) else ():
        found |= {name: value} if name in _AGGREGATION else aggregation_columns(value)
    return found


def _joined(rows: Sequence[Row]) -> Row:
    joined: dict[str, Cell] = {}
    for row in rows:
        twice = sorted({*joined} & {*row})
        if twice:
            raise ValueError(f"a column must have one source. Received: {twice} twice")
        joined.update(row)
    return joined


def _say_when(signal_number: int) -> None:
    print("\nstopping after this round; once more stops at once", file=sys.stderr)
