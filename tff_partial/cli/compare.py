"""Prints the rounds that runs took to reach given test accuracies.

    python -m tff_partial.compare results/a results/b --targets=0.92,0.95

A target counts as reached in the first round whose evaluation reaches it; `*` if none does.
"""

from __future__ import annotations

from collections.abc import Sequence

from tff_partial.cli import command_line
from tff_partial.results import compare


def main(arguments: Sequence[str]) -> int:
    """Print the table that the arguments ask for; return the exit code."""
    parser = command_line.Parser("compare", __doc__)
    parser.add_argument("folders", nargs="+", help="Results folders of runs.")
    parser.add_argument("--targets", default="", help="Test accuracies, such as 0.92,0.95.")
    flags = parser.parse_args(arguments)
    try:
        print(compare.table(flags.folders, _targets(flags.targets)))
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
