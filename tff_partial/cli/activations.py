"""Measures which neurons clients activate: figures 2, 6, 7 and 8 of FedDSE.

    python -m tff_partial.activations
    python -m tff_partial.activations --partition=iid --output_dir=results/iid

A model is trained by FedAvg, by default an MLP of 50, 24 and 10 neurons on MNIST with five clients
of two classes each. The folder gets activations.csv and the pictures, figure2.svg and others. A run
that was stopped resumes when it is restarted with the same settings and --output_dir.
"""

from __future__ import annotations

import argparse
from collections.abc import Sequence

from tff_partial.cli import command_line
from tff_partial.core.fields import fields_of
from tff_partial.experiments import flags
from tff_partial.recipes import outcome
from tff_partial.results import neurons as results
from tff_partial.similarity import neurons, study

_MEASURING = fields_of(neurons.Measuring)
_FLAGS = (
    *(flags.DECIDING[name] for name in study.SETTINGS),
    *(flags.EXECUTING[name] for name in ("data", "data_dir", "output_dir")),
    *_MEASURING,
)


def parse(arguments: Sequence[str]) -> argparse.Namespace:
    """Return the flags; raise a ValueError if they are wrong."""
    parser = command_line.Parser("activations", __doc__)
    for field in _FLAGS:
        parser.add_argument(
            f"--{field.name}", type=field.type, default=field.default, help=field.doc
        )
    parser.set_defaults(task="mnist")
    return parser.read(arguments)


def _prepare(arguments: Sequence[str]) -> neurons.Prepared:
    given = vars(parse(arguments))
    measuring = neurons.Measuring(**{field.name: given.pop(field.name) for field in _MEASURING})
    return neurons.prepare(measuring, **given)


def _run(prepared: neurons.Prepared) -> int:
    with prepared.training.lock:
        rows = neurons.run(prepared)
    print("most active third of each layer, over pairs of clients (by chance 33 %)\n")
    print(outcome.aligned(results.table(rows)))
    return 0


def main(arguments: Sequence[str]) -> int:
    """Run what the flags ask for; return the exit code."""
    return command_line.train(lambda: _prepare(arguments), _run)
