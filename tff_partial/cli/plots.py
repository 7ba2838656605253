"""Draws the curves of several runs beside each other.

    python -m tff_partial.plots results/a results/b --columns=test_accuracy,loss --output=x.png

There is a panel for each column and a line for each run, against local steps if all runs have them,
else against rounds.
"""

from __future__ import annotations

from collections.abc import Sequence

from tff_partial.cli import command_line
from tff_partial.results import figures


def main(arguments: Sequence[str]) -> int:
    """Draw what the arguments ask for; return the exit code."""
    parser = command_line.Parser("plots", __doc__)
    parser.add_argument("folders", nargs="+", help="Results folders of runs.")
    parser.add_argument(
        "--columns", default="test_accuracy,test_loss", help="Columns of metrics.csv."
    )
    parser.add_argument("--output", default="curves.png", help="The picture to write.")
    try:
        flags = parser.read(arguments)
        runs = [figures.read(folder) for folder in flags.folders]
        figures.plot(runs, flags.columns.split(","), flags.output)
    except (ValueError, OSError) as error:
        return command_line.fail(error, code=2)
    return 0
