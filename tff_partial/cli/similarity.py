"""Measures how similar clients' local models become: figures 1 and 3 of EmbracingFL.

    python -m tff_partial.similarity --figure=1 --task=cifar10
    python -m tff_partial.similarity --figure=3 --task=cifar10 --output_dir=results/figure3

Figure 1: clients train alone. Figure 3: half of the model is synchronised after --local_steps. The
folder gets similarity.csv and similarity.png. A run that was stopped resumes when it is restarted
with the same settings and --output_dir.
"""

from __future__ import annotations

import argparse
from collections.abc import Sequence

from tff_partial.cli import command_line
from tff_partial.core.fields import Field, fields_of
from tff_partial.experiments import flags
from tff_partial.similarity import study, tables

_FLAGS = (
    Field("figure", int, 1, "1 (independent clients) or 3 (halves synchronised)."),
    *(flags.DECIDING[name] for name in study.SETTINGS),
    *(flags.EXECUTING[name] for name in ("data", "data_dir", "output_dir")),
    *fields_of(study.Measuring),
)
_MEASURING = tuple(field.name for field in fields_of(study.Measuring))


def parse(arguments: Sequence[str]) -> argparse.Namespace:
    """Return the flags; raise a ValueError if they are wrong."""
    parser = command_line.Parser("similarity", __doc__)
    for field in _FLAGS:
        parser.add_argument(
            f"--{field.name}", type=field.type, default=field.default, help=field.doc
        )
    parser.set_defaults(task="cifar10")
    return parser.read(arguments)


def _prepare(arguments: Sequence[str]) -> study.Prepared:
    given = vars(parse(arguments))
    measuring = study.Measuring(**{name: given.pop(name) for name in _MEASURING})
    return study.prepare(measuring=measuring, **given)


def _run(prepared: study.Prepared) -> int:
    with prepared.lock:
        print(tables.table(prepared.figure, study.run(prepared)))
    return 0


def main(arguments: Sequence[str]) -> int:
    """Run what the flags ask for; return the exit code."""
    return command_line.train(lambda: _prepare(arguments), _run)
