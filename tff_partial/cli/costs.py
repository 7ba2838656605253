"""What training a model costs a client, beside the papers' figures.

python -m tff_partial.costs --model=resnet20 --tiers=strong,7,0.3
"""

from __future__ import annotations

import json
import os
from collections.abc import Mapping, Sequence
from typing import Any

from tff_partial import tiers
from tff_partial.cli import command_line
from tff_partial.core.types import Cell, Row
from tff_partial.experiments.bundled import models
from tff_partial.recipes import model_costs


def main(arguments: Sequence[str]) -> int:
    """Print the report that the arguments ask for; return the exit code."""
    os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")
    parser = command_line.Parser("costs", __doc__)
    add = parser.add_argument
    add("--model", default="resnet20", help=f"{', '.join(models.NAMES)}.")
    add("--batch_size", default="32", help="Examples in a local step.")
    add("--task", help="Task whose input and classes to take; by default those of the paper.")
    add("--num_classes", help="Number of classes, if other than the task's.")
    add("--tiers", default=",".join(tiers.NAMES), help="Tiers, such as strong,7,0.3.")
    add("--json", action="store_true", help="Print JSON.")
    try:
        flags = parser.read(arguments)
        batch_size = _positive("batch_size", flags.batch_size)
        shape, classes = model_costs.default_input(flags.model, flags.task)
        classes = _positive("num_classes", flags.num_classes or str(classes))
        asked = tiers.as_tiers(flags.tiers.split(","))
        report = model_costs.report(flags.model, shape, classes, batch_size, asked)
    except ValueError as error:
        return command_line.fail(error, code=2)
    print(json.dumps(report) if flags.json else _format(report))
    return 0


def _positive(name: str, text: str) -> int:
    if not (text.isdecimal() and int(text) > 0):
        raise ValueError(f"{name} must be a positive integer. Received: {name}={text!r}")
    return int(text)


def _format(report: Mapping[str, Any]) -> str:
    batch = report["activations_batch"]
    lines = [
        f"{report['model']}, input {report['input_shape']}, {report['num_classes']} classes",
        f"activations and capacity of a batch of {batch}; operations of one example, `record` once "
        "a round, `update` once a step; bytes of a round",
        "",
        *_align(report["rows"]),
    ]
    if report["fedpmt_table_2"]:
        lines += ["", f"FedPMT, table II: operations of a step of {report['batch_size']} examples"]
        lines += ["", *_align(report["fedpmt_table_2"]), "", model_costs.remark()]
    return "\n".join(line.rstrip() for line in lines)


def _align(rows: Sequence[Row]) -> list[str]:
    """Return the lines of a table: texts to the left, numbers to the right."""
    cells = [[_cell(value) for value in row.values()] for row in rows]
    table = [list(rows[0]), *cells]
    widths = [max(map(len, column)) for column in zip(*table)]
    left = [isinstance(value, str) for value in rows[0].values()]
    return [
        "  ".join(c.ljust(w) if is_left else c.rjust(w) for c, w, is_left in zip(row, widths, left))
        for row in table
    ]


def _cell(value: Cell) -> str:
    if isinstance(value, float):
        return f"{value:.2f}"
    return f"{value:,}" if isinstance(value, int) else str(value)
