"""What training a model costs a client, beside the papers: `python -m tff_partial.costs`."""

from __future__ import annotations

import argparse
import json
import os
from collections.abc import Mapping, Sequence
from typing import Any

from tff_partial import tiers
from tff_partial.cli import command_line
from tff_partial.experiments.bundled import models
from tff_partial.recipes import model_costs


def _format(found: Mapping[str, Any]) -> str:
    batch = found["activations_batch"]
    lines = [
        f"{found['model']}, input {found['input_shape']}, {found['num_classes']} classes",
        f"activations and capacity of a batch of {batch}; operations of one example, `record` once "
        "a round, `update` once a step; bytes of a round",
        "",
        *_align(found["rows"]),
    ]
    if found["fedpmt_table_2"]:
        lines += ["", f"FedPMT, table II: operations of a step of {found['batch_size']} examples"]
        lines += ["", *_align(found["fedpmt_table_2"]), "", model_costs.remark()]
    return "\n".join(line.rstrip() for line in lines)


def _align(rows: Sequence[Mapping[str, Any]]) -> list[str]:
    """Lines of a table: texts to the left, numbers to the right."""
    cells = [[_cell(value) for value in row.values()] for row in rows]
    table = [list(rows[0]), *cells]
    widths = [max(map(len, column)) for column in zip(*table)]
    left = [isinstance(value, str) for value in rows[0].values()]
    return [
        "  ".join(c.ljust(w) if is_left else c.rjust(w) for c, w, is_left in zip(row, widths, left))
        for row in table
    ]


def _cell(value: Any) -> str:
    if isinstance(value, float):
        return f"{value:.2f}"
    return f"{value:,}" if isinstance(value, int) else value


def _parse(argv: Sequence[str]) -> argparse.Namespace:
    parser = command_line.Parser("costs", "Prints what training a model costs a client.")
    parser.add_argument("--model", default="resnet20", help=", ".join(models.NAMES))
    parser.add_argument("--batch_size", default="32", help="Examples in a local step.")
    parser.add_argument("--task", help="Task whose input and classes to use; default: the papers'.")
    parser.add_argument("--num_classes", help="Number of classes, if it is not the task's.")
    parser.add_argument("--tiers", default=",".join(tiers.NAMES), help="Such as strong,7,0.3.")
    parser.add_argument("--json", action="store_true", help="Print JSON.")
    return parser.read(argv)


def _positive(name: str, text: str) -> int:
    if not (text.isdecimal() and int(text) > 0):
        raise ValueError(f"{name} must be a positive integer. Received: {name}={text!r}")
    return int(text)


def main(argv: Sequence[str]) -> int:
    """Print the report that the flags ask for; return the exit code."""
    os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")
    try:
        args = _parse(argv)
        batch_size = _positive("batch_size", args.batch_size)
        shape, classes = model_costs.default_input(args.model, args.task)
        classes = _positive("num_classes", args.num_classes or str(classes))
        found = model_costs.report(
            args.model, shape, classes, batch_size, tiers.as_tiers(args.tiers.split(","))
        )
    except ValueError as error:
        return command_line.fail(error, code=2)
    print(json.dumps(found) if args.json else _format(found))
    return 0
