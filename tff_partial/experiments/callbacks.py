"""Things that watch the rounds of a run: costs and the simulated deadline, TensorBoard, a bar."""

from __future__ import annotations

import math
import os
from collections.abc import Sequence
from typing import Callable, Optional

import tqdm

from tff_partial import runtime
from tff_partial.core.lazy import tf
from tff_partial.core.types import Row
from tff_partial.costs.rounds import Accounts
from tff_partial.experiments import privacy
from tff_partial.experiments.participation import RoundResult
from tff_partial.results.metrics import SAMPLED_ACCURACY


class Callback:
    """Watches the rounds of a run. Methods do nothing by default; rounds count from 0."""

    def on_start(self, done: int) -> None:
        """Called before the first round with the number of rounds that are already done."""

    def on_cohort(self, round_num: int, clients: Sequence[int]) -> Sequence[int]:
        """Return those of the clients that were drawn whose update counts."""
        return clients

    def on_result(self, round_num: int, result: RoundResult, is_evaluated: bool) -> Row:
        """Return further columns of the round's row."""
        return {}

    def on_round(self, done: int, row: Row) -> None:
        """Called after a round with the number of rounds done and the row of metrics.csv."""

    def on_error(self, error: BaseException) -> None:
        """Called before `on_end` with what ended training before its last round, if it did."""

    def on_end(self) -> None:
        """Called when training ends, whatever ended it, even if it has not started."""


class Costs(Callback):
    """Adds what a round costs its clients; drops clients that miss the simulated deadline.

    Nothing is added if it `tells` nothing: costs and counts say who took part.
    """

    def __init__(self, accounts: Accounts, tells: bool = True) -> None:
        self._accounts, self._tells = accounts, tells
        self._columns: Row = {}

    def on_cohort(self, round_num: int, clients: Sequence[int]) -> Sequence[int]:
        in_time, columns = self._accounts.of_round(clients, round_num)
        self._columns = columns if self._tells else {}
        return in_time

    def on_result(self, round_num: int, result: RoundResult, is_evaluated: bool) -> Row:
        return self._columns


class Epsilon(Callback):
    """Adds the epsilon of the rounds so far; the cell is empty without noise."""

    def __init__(self, accounting: privacy.Accounting) -> None:
        self._accounting = accounting

    def on_result(self, round_num: int, result: RoundResult, is_evaluated: bool) -> Row:
        epsilon = self._accounting.epsilon(round_num + 1)
        return {"epsilon": round(epsilon, 6) if math.isfinite(epsilon) else ""}


class Places(Callback):
    """Adds how many actors and nodes took part in a round."""

    def __init__(self, context: runtime.SpreadContext) -> None:
        self._context = context

    def on_result(self, round_num: int, result: RoundResult, is_evaluated: bool) -> Row:
        return {**self._context.taken_part()}


class TensorBoard(Callback):
    """Writes the rows to `tensorboard/` of the run's folder."""

    def __init__(self, output_dir: str) -> None:
        self._folder = os.path.join(output_dir, "tensorboard")

    def on_start(self, done: int) -> None:
        self._writer = tf.summary.create_file_writer(self._folder)

    def on_round(self, done: int, row: Row) -> None:
        with self._writer.as_default():
            for name, value in row.items():
                if not isinstance(value, str):  # an empty cell
                    tf.summary.scalar(name, value, step=done)


class ProgressBar(Callback):
    """Shows round, loss, accuracy and time left, and where clients run if `place` says so."""

    def __init__(
        self, rounds: int, title: str = "", place: Optional[Callable[[], str]] = None
    ) -> None:
        self._place = place
        self._bar = tqdm.tqdm(total=rounds, desc=title or None, unit="round", dynamic_ncols=True)
        self._accuracy = ""

    def on_start(self, done: int) -> None:
        # Rounds of an earlier start do not count for the time left.
        self._bar.initial = self._bar.n = done
        self._bar.refresh()

    def on_round(self, done: int, row: Row) -> None:
        tested = [row.get(name, "") for name in ("test_accuracy", SAMPLED_ACCURACY)]
        self._accuracy = next((f"{a:.4f}" for a in tested if a != ""), self._accuracy)
        trained = row.get("train_loss", "")
        loss = "" if trained == "" else f"{float(trained or 0):.4f}"
        shown = [f"loss={loss}", f"accuracy={self._accuracy}", self._place() if self._place else ""]
        self._bar.set_postfix_str(", ".join(filter(None, shown)), refresh=False)
        self._bar.update()

    def on_end(self) -> None:
        self._bar.close()
