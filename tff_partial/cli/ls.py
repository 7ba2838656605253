"""Lists runs: their state, rounds, accuracy, task and algorithm.

    tff-partial ls results/
    tff-partial ls results/ --sort=accuracy
    tff-partial ls results/ --state=stopped,diverged --json

A run is running (a process holds its lock), finished, stopped (it resumes when it is restarted with
its --output_dir) or diverged. The accuracy is the last that was measured on test data. Damaged
folders are left out with a warning.
"""

from __future__ import annotations

import dataclasses
import json
import sys
from collections.abc import Sequence

from tff_partial.cli import command_line
from tff_partial.core import checks
from tff_partial.results import listing
from tff_partial.results.listing import Listed
from tff_partial.results.text_files import ResultsError

_HEADS = ("run", "state", "rounds", "accuracy", "task", "algorithm")
# Column -> what it is sorted by: names rise, numbers fall, so that the best and newest come first.
SORTS = {
    "folder": lambda run: run.folder,
    "state": lambda run: (listing.STATES.index(run.state), run.folder),
    "rounds": lambda run: (-run.done, run.folder),
    "accuracy": lambda run: (-1.0 if run.accuracy is None else -1.0 - run.accuracy, run.folder),
    "task": lambda run: (run.task, run.algo, run.folder),
    "algo": lambda run: (run.algo, run.task, run.folder),
    "changed": lambda run: (-run.changed, run.folder),
}


def main(arguments: Sequence[str]) -> int:
    """Print the list that the arguments ask for; return the exit code."""
    parser = command_line.Parser("ls", __doc__)
    parser.add_argument("folders", nargs="*", default=["results"], help="Default: results.")
    parser.add_argument("--sort", default="folder", help=f"By {', '.join(SORTS)}.")
    parser.add_argument("--state", default="", help=f"Only these: {', '.join(listing.STATES)}.")
    parser.add_argument("--json", action="store_true", help="Print a JSON list of objects.")
    try:
        flags = parser.read(arguments)
        checks.one_of("sort", flags.sort, SORTS)
        states = flags.state.split(",") if flags.state else listing.STATES
        for state in states:
            checks.one_of("state", state, listing.STATES)
        runs = [run for run in _read(flags.folders) if run.state in states]
    except ValueError as error:
        return command_line.fail(error, code=2)
    runs.sort(key=SORTS[flags.sort])
    print(json.dumps([*map(dataclasses.asdict, runs)], indent=2) if flags.json else table(runs))
    return 0


def _read(folders: Sequence[str]) -> list[Listed]:
    runs = []
    for folder in dict.fromkeys(listing.find(folders)):
        try:
            runs.append(listing.read(folder))
        except (ResultsError, OSError) as error:
            print(f"warning: left out: {' '.join(str(error).split())}", file=sys.stderr)
    return runs


def table(runs: Sequence[Listed]) -> str:
    """Return the runs as columns, and how many there are of each state."""
    lines = [_HEADS, *map(_line, runs)]
    widths = [max(map(len, column)) for column in zip(*lines)]
    padded = [[text.ljust(width) for text, width in zip(line, widths)] for line in lines]
    counts = {state: sum(run.state == state for run in runs) for state in listing.STATES}
    told = ", ".join(f"{count} {state}" for state, count in counts.items() if count)
    end = f"{len(runs)} run{'' if len(runs) == 1 else 's'}{f': {told}' if told else ''}"
    return "\n".join(["  ".join(line).rstrip() for line in padded] + ["", end])


def _line(run: Listed) -> tuple[str, ...]:
    accuracy = "–" if run.accuracy is None else f"{run.accuracy:.4f}"
    return run.folder, run.state, f"{run.done}/{run.rounds}", accuracy, run.task, run.algo
