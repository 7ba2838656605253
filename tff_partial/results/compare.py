"""A table of runs: the rounds that each took to reach given test accuracies."""

from __future__ import annotations

import os
from collections.abc import Sequence

from tff_partial.results import metrics
from tff_partial.results.statistics import rounds_to, values
from tff_partial.results.text_files import ResultsError


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
    accuracies = values(rows, "test_accuracy")
    if not accuracies:
        raise ResultsError(f"a run must have an evaluation. Received: {folder}")
    reached = [rounds_to(rows, target) for target in targets]
    return [
        os.path.basename(os.path.normpath(folder)),
        *("*" if number is None else str(number) for number in reached),
        f"{accuracies[-1]:.4f}",
        f"{max(accuracies):.4f}",
        str(len(rows)),
    ]
