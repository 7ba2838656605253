"""Runs a recipe or a sweep, every run as a process of its own: in parallel, and it can be killed.

A run that is finished is skipped, one that was stopped resumes from its checkpoint, one that
another process is still working on is waited for: a run holds a lock on its log as long as it
lives. When this process is killed, its runs are told to stop. A run that fails is reported at the
end.
"""

from __future__ import annotations

import collections
import dataclasses
import fcntl
import os
import pathlib
import re
import signal
import subprocess
import sys
import time
from collections.abc import Sequence
from typing import Optional

import tqdm

from tff_partial.experiments.run import say
from tff_partial.recipes import document, estimate, exact
from tff_partial.recipes import outcome as recipe_results
from tff_partial.recipes import plan as recipe_plan
from tff_partial.system import children, interrupts

_POLL_SECONDS, _REFRESH_SECONDS = 0.2, 5.0
_ROOT = pathlib.Path(__file__).resolve().parents[2]


def main(options: recipe_plan.Options, jobs: int = 1, dry_run: bool = False) -> int:
    """Run a recipe and print its results; return the exit code.

    Raises:
      ValueError: If the input is wrong; nothing has been written then.
    """
    plan = recipe_plan.create(options)
    if plan.recipe.kind == "exact":
        print(exact.show(plan, write=not dry_run))
        return 0
    if dry_run:
        print(estimate.table(plan))
        return 0
    outcome = execute(plan, jobs, options.given.get("data_dir"))
    is_analysis = plan.recipe.kind == "analysis"
    print((recipe_results.similarities if is_analysis else recipe_results.table)(plan))
    return explain(plan, outcome)


def execute(plan: recipe_plan.Plan, jobs: int, data_dir: Optional[str]) -> Outcome:
    """Run what is not finished; the folder's document is written first."""
    _fetch_data(plan, data_dir)
    document.write(plan.folder, plan.merge)
    say(f"{plan.recipe.name}: {len(plan.runs)} runs; results in {plan.folder}")
    if recipe_results.embedded(plan):
        say(recipe_results.embedded(plan))
    return run_all(plan.runs, jobs)


def explain(plan: recipe_plan.Plan, outcome: Outcome, again: str = "the same flags") -> int:
    """Say which runs failed and whether all were stopped; return the exit code."""
    diverged = {run.name: recipe_results.diverged_at(run) for run in plan.runs}
    diverged = {name: round_num for name, round_num in diverged.items() if round_num}
    for name, reason in outcome.failed:
        if name not in diverged:
            say(f"failed: {name}: {reason}")
    for name, round_num in diverged.items():
        say(f"diverged: {name}: in round {round_num}; it is not run again")
    if outcome.signal:
        say(f"stopped; start again with {again} to resume")
        return 128 + outcome.signal
    return 1 if outcome.failed or diverged else 0


def _fetch_data(plan: recipe_plan.Plan, folder: Optional[str]) -> None:
    """Download once what several runs would download at the same time."""
    wanted = {run.experiment.task.name: run for run in plan.runs if not run.is_embedded}
    for run in wanted.values():
        task = run.experiment.task
        if task.load_real and task.is_prepared and not task.is_prepared(folder):
            task.load_real(folder)


@dataclasses.dataclass
class Outcome:
    """Runs that failed, with the reason, and the signal that ended it, or 0."""

    failed: list[tuple[str, str]] = dataclasses.field(default_factory=list)
    signal: int = 0


def run_all(runs: Sequence[recipe_plan.Run], jobs: int) -> Outcome:
    """Run what is not finished, `jobs` at a time, with one bar for the rounds of all."""
    outcome, bar = Outcome(), _Progress(runs)
    waiting = collections.deque(run for run in runs if not recipe_results.is_finished(run))
    running: dict[str, tuple[recipe_plan.Run, subprocess.Popen]] = {}
    elsewhere = set[str]()

    def pass_on(number: int) -> None:
        say("\nstopping after the rounds under way; once more stops at once")
        for _, process in list(running.values()):
            process.send_signal(number)

    with interrupts.StopSignals(pass_on) as signals, bar:
        while running or (waiting and not signals.received):
            for _ in range(0 if signals.received else min(jobs - len(running), len(waiting))):
                run = waiting.popleft()
                process = _start(run, jobs)
                if process is not None:
                    running[run.name] = run, process
                elif not recipe_results.is_finished(run):
                    waiting.append(run)
                    if run.name not in elsewhere:
                        elsewhere.add(run.name)
                        bar.say(f"{run.name}: another start is running it; waiting (see {run.log})")
            time.sleep(_POLL_SECONDS)
            bar.update(list(running))
            for name, (run, process) in list(running.items()):
                code = process.poll()
                if code is None:
                    continue
                del running[name]
                if code and not signals.received:
                    reason = f"exit code {code}, {_last_line(run.log)} (see {run.log})"
                    outcome.failed.append((name, reason))
        outcome.signal = signals.received
    return outcome


def _start(run: recipe_plan.Run, jobs: int) -> Optional[subprocess.Popen]:
    """Start a run; return None if another process works on it or has finished it."""
    run.log.parent.mkdir(parents=True, exist_ok=True)
    with open(run.log, "ab") as log:
        try:
            # The run inherits the lock and holds it until it ends, whatever becomes of us.
            fcntl.flock(log, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            return None
        if recipe_results.is_finished(run):
            return None
        return subprocess.Popen(
            children.command([sys.executable, *_arguments(run, jobs)], signal.SIGTERM),
            stdin=subprocess.DEVNULL,
            stdout=log,
            stderr=log,
            # Control-C at the terminal is for this process, which then stops its runs.
            start_new_session=True,
        )


def _arguments(run: recipe_plan.Run, jobs: int) -> list[str]:
    """Return what python is given; parallel runs share the cores."""
    first, *rest = run.arguments
    if first.startswith("-"):  # -m and a module
        return [first, *rest]
    if jobs > 1 and not any(re.match("--(runtime|client_parallelism)=", word) for word in rest):
        rest.append(f"--client_parallelism={max(1, (os.cpu_count() or 1) // jobs)}")
    return [str(_ROOT / first), *rest]


def _last_line(log: pathlib.Path) -> str:
    lines = [line.strip() for line in re.split(r"[\r\n]+", log.read_text(errors="replace"))]
    return next((line for line in reversed(lines) if line), "no output")


class _Progress:
    """One bar for the rounds of all runs; those of earlier starts do not count for the time."""

    def __init__(self, runs: Sequence[recipe_plan.Run]) -> None:
        self._runs = runs
        self._done = {run.name: _rounds_done(run) for run in runs}
        self._shown = 0.0

    def __enter__(self) -> _Progress:
        total, done = sum(run.total_rounds for run in self._runs), sum(self._done.values())
        self._bar = tqdm.tqdm(total=total, initial=done, unit="round", dynamic_ncols=True)
        return self

    def __exit__(self, *unused: object) -> None:
        self.update([run.name for run in self._runs])
        self._bar.close()

    def say(self, line: str) -> None:
        """Print a line above the bar."""
        self._bar.write(line, file=sys.stderr)

    def update(self, running: Sequence[str]) -> None:
        for run in self._runs:
            if run.name in running:
                self._done[run.name] = _rounds_done(run)
        done, now = sum(self._done.values()), time.monotonic()
        if done == self._bar.n and now - self._shown < _REFRESH_SECONDS:
            return
        self._shown = now
        finished = sum(self._done[run.name] >= run.total_rounds for run in self._runs)
        names = ", ".join(running) if len(running) < len(self._runs) else ""
        self._bar.set_postfix_str(f"{finished}/{len(self._runs)} runs; {names}", refresh=False)
        if done == self._bar.n:
            self._bar.refresh()  # an update by 0 would count for the estimate of the time left
        else:
            # A run that resumes repeats what followed its checkpoint: the bar may go back.
            self._bar.update(done - self._bar.n)


def _rounds_done(run: recipe_plan.Run) -> int:
    if recipe_results.is_finished(run):
        return run.total_rounds
    folders = [run.folder / scheme for scheme in run.schemes] or [run.folder]
    return sum(_rows(folder / "metrics.csv") for folder in folders)


def _rows(path: pathlib.Path) -> int:
    """Return the number of rows of a CSV without its head; 0 if there is none."""
    try:
        with open(path) as file:
            return max(0, sum(1 for _ in file) - 1)
    except OSError:
        return 0
