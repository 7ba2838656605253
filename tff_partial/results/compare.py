"""Runs beside each other: the rounds that each took to reach given test accuracies.

    python -m tff_partial.compare results/a results/b --targets=0.92,0.95

prints a Markdown table. A target counts as reached in the first round whose evaluation reaches it;
`*` where none does.
"""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Sequence

from tff_partial.results import folder as results
from tff_partial.results.statistics import accuracies, rounds_to


def table(folders: Sequence[str], targets: Sequence[float]) -> str:
    """A row a run.

    Raises:
      ResultsError: If a folder holds no run.
    """
    heads = ["run", *(f"{100 * t:g} %" for t in targets), "final", "best", "rounds"]
    lines = [heads, ["---"] * len(heads)]
    for folder in folders:
        rows = results.read_metrics(folder)
        found = accuracies(rows)
        if not found:
            raise results.ResultsError(f"a run must have an evaluation. Received: {folder}")
        reached = [rounds_to(rows, target) for target in targets]
        name = os.path.basename(os.path.normpath(folder))
        lines.append(
            [
                name,
                *("*" if n is None else str(n) for n in reached),
                f"{found[-1]:.4f}",
                f"{max(found):.4f}",
                str(len(rows)),
            ]
        )
    return "\n".join(f"| {' | '.join(line)} |" for line in lines)
