"""Draws the curves of several runs beside each other.

python -m tff_partial.plots results/a results/b --columns=test_accuracy,loss --output=x.png
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence

from tff_partial.results.figures import plot, read


def main(argv: Sequence[str]) -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("folders", nargs="+")
    parser.add_argument("--columns", default="test_accuracy,test_loss")
    parser.add_argument("--output", default="curves.png")
    args = parser.parse_args(argv)
    try:
        plot([read(folder) for folder in args.folders], args.columns.split(","), args.output)
    except (ValueError, OSError) as error:
        print(f"error: {error}", file=sys.stderr)
        return 2
    return 0
