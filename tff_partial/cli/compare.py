"""Prints the rounds that runs took to reach given test accuracies.

    python -m tff_partial.compare results/a results/b --targets=0.92,0.95

A target counts as reached in the first round whose evaluation reaches it; `*` if none does. Final
and best are accuracies on all test examples, `-` if a run has none yet; where rounds were tested on
a sample, its size stands beside the number of rounds.
"""

from __future__ import annotations

import os
from collections.abc import Sequence

from tff_partial.cli import command_line
from tff_partial.results import metrics
from tff_partial.results.text_files import ResultsError


def main(arguments: Sequence[str]) -> int:
    """Print the table that the arguments ask for; return the exit code."""
    parser = command_line.Parser("compare", __doc__)
    parser.add_argument("folders", nargs="+", help="Results folders of runs.")
    parser.add_argument("--targets", default="", help="Test accuracies, such as 0.92,0.95.")
    try:
        flags = parser.read(arguments)
        print(table(flags.folders, _targets(flags.targets)))
    except ValueError as error:
        return command_line.fail(error, code=2)
    return 0


def _targets(text: str) -> list[float]:
    try:
        return [float(target) for target in text.split(",") if target]
    except ValueError:
        raise ValueError(
            f"targets must be accuracies such as 0.92,0.95. Received: {text}"
        ) from None


def table(folders: Sequence[str], targets: Sequence[float]) -> str:
    """Return a Markdown table with a row for each run; `*` for a target that it did not reach.

    Raises:
      ResultsError: If a folder holds no run.
    """
    heads = ["run", *(f"{100 * t:g} %" for t in targets), "final", "best", "rounds"]
    lines = [heads, ["---"] * len(heads), *(_line(folder, targets) for folder in folders)]
    return "\n".join(f"| {' | '.join(line)} |" for line in lines)


def _line(folder: str, targets: Sequence[float]) -> list[str]:
    rows = metrics.read(folder)
    accuracies = metrics.values(rows, "test_accuracy")
    examples = metrics.sample_size(rows)
    if not accuracies and examples is None:
        raise ResultsError(f"a run must have an evaluation. Received: {folder}")
    sample = "" if examples is None else f" (on {examples:,} examples)"
    reached = [metrics.rounds_to(rows, target) for target in targets]
    final_and_best = [accuracies[-1], max(accuracies)] if accuracies else []
    return [
        os.path.basename(os.path.normpath(folder)),
        *("*" if number is None else f"{number}{sample}" for number in reached),
        *([f"{accuracy:.4f}" for accuracy in final_and_best] or "--"),
        str(len(rows)),
    ]
