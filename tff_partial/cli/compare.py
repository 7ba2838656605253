"""Prints the rounds that runs took to reach given test accuracies.

python -m tff_partial.compare results/a results/b --targets=0.92,0.95
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence

from tff_partial.results.compare import table


def main(argv: Sequence[str]) -> int:
    parser = argparse.ArgumentParser(prog="python -m tff_partial.compare", description=__doc__)
    parser.add_argument("folders", nargs="+", help="results folders")
    parser.add_argument("--targets", default="", help="test accuracies, such as 0.92,0.95")
    flags = parser.parse_args(argv)
    try:
        try:
            targets = [float(text) for text in flags.targets.split(",") if text]
        except ValueError:
            raise ValueError(
                f"targets must be accuracies such as 0.92,0.95. Received: {flags.targets}"
            ) from None
        print(table(flags.folders, targets))
    except ValueError as error:
        print(f"error: {error}", file=sys.stderr)
        return 2
    return 0
