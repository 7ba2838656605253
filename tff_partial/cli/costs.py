"""The papers' tables of costs beside ours: `python -m tff_partial.costs`."""

from __future__ import annotations

import argparse
import dataclasses
import json
import os
import sys
import types
from collections.abc import Mapping, Sequence
from typing import Any, Callable, NoReturn

import numpy as np

import models
import tasks
from tff_partial import costs, tiers
from tff_partial.core.model import Cut, ModelSpec
from tff_partial.costs.blocks import measure
from tff_partial.costs.clients import ClientCost
from tff_partial.experiments import config

# EmbracingFL, table 1 and, by width, table 10: parameters, activations, capacity.
_TABLE_1 = {
    "resnet20": {
        "strong": (272_762, 6_947_136, 1.00),
        "moderate": (257_994, 2_752_832, 0.42),
        "weak": (206_346, 917_824, 0.16),
        "0.45": (52_874, 3_039_552, 0.43),
        "0.2": (10_006, 1_302_848, 0.18),
    },
    "femnist_cnn": {
        "strong": (6_603_710, 39_742, 1.00),
        "moderate": (6_551_614, 2_110, 0.99),
        "weak": (127_038, 62, 0.02),
    },
    "bilstm": {
        "strong": (3_611_137, 1_310_720, 1.00),
        "moderate": (1_051_137, 1_310_720, 0.48),
        "weak": (1_051_137, 655_360, 0.35),
    },
}
_WIDTHS = (0.45, 0.2)
# FedPMT, table II: batch size, and operations of a step with 0, 1, ... blocks removed.
_TABLE_2 = {
    "fedpmt_fcnn": (12, (15_305_968, 9_779_760, 7_496_160, 6_473_760)),
    "fedpmt_cnn_mnist": (12, (1_828_336, 1_597_936, 1_188_336, 745_456)),
    "fedpmt_cnn_cifar10": (20, (28_068_800, 26_187_200, 24_587_200, 16_077_200, 12_864_200)),
}
_CNN_SLIPS = (
    "The paper counts the convolutions of one example instead of the batch, and leaves out the "
    "dense layers' activation functions"
)
# How the paper's figures come out of its formulas.
_SLIPS = {
    "fedpmt_fcnn": "The paper's full figure counts 784 neurons of Fc1 instead of 400: 12 * 384.",
    "fedpmt_cnn_mnist": f"{_CNN_SLIPS}.",
    "fedpmt_cnn_cifar10": (
        f"{_CNN_SLIPS}; it also counts Conv2 with 20 filters instead of 32, 10 neurons instead of "
        "300 after Fc1, and 3,000 too few from Fc2 on."
    ),
}
_GRAY_MODELS = ("femnist_cnn", "fedpmt_cnn_mnist", "fedpmt_fcnn", "mlp_200", "mlp_100", "softmax")


def report(
    name: str, shape: tuple[int, ...], num_classes: int, batch_size: int, tier_names: Sequence[str]
) -> dict[str, Any]:
    """The costs of a model of `models` by style of training and tier, and the papers' figures.

    `prefix` removes as many blocks as the tier does, from the other end; `channel` sends half of
    the channels unless the tier is strong; `width` keeps that share of the channels.
    """
    model = _spec(name, shape, num_classes)
    published = (shape, num_classes) == _default_input(name)
    compares = published and batch_size == _TABLE_2.get(name, (None,))[0]
    return {
        "model": name,
        "input_shape": shape,
        "num_classes": num_classes,
        "batch_size": batch_size,
        "activations_batch": costs.capacity_batch(model, batch_size),
        "rows": [
            _row(model, batch_size, style, tier, cost, _TABLE_1.get(name) if published else None)
            for style, tier, cost in [
                *_styles(model, batch_size, tier_names),
                *_widths(name, model, batch_size, num_classes),
            ]
        ],
        "fedpmt_table_2": _table_2(model, name) if compares else [],
    }


def _styles(model: ModelSpec, batch_size: int, tier_names: Sequence[str]) -> list[Any]:
    cuts = {tier: costs.cut_of(tier, model, batch_size) for tier in tier_names}
    styles: dict[str, Callable[[Cut], ClientCost]] = {
        "embracing": lambda cut: costs.recorded_suffix(model, cut, batch_size),
        "fedpmt": lambda cut: costs.backprop_suffix(model, cut, batch_size),
        "prefix": lambda cut: costs.prefix(model, cut.blocks, batch_size),
        "channel": lambda cut: costs.channels(model, 0.5 if cut.blocks else 1.0, batch_size),
    }
    return [(style, tier, cost(cuts[tier])) for style, cost in styles.items() for tier in cuts]


def _widths(name: str, model: ModelSpec, batch_size: int, num_classes: int) -> list[Any]:
    batch = costs.capacity_batch(model, batch_size)
    found = []
    for width in _WIDTHS:
        narrow = _spec(name, model.input_shape, num_classes, width)
        share = costs.memory(measure(narrow), batch) / costs.memory(measure(model), batch)
        cost = dataclasses.replace(costs.whole(narrow, batch_size), capacity=share)
        found.append(("width", f"{width:g}", cost))
    return found


def _row(
    model: ModelSpec, batch_size: int, style: str, tier: str, cost: ClientCost, papers: Any
) -> dict[str, Any]:
    found = {"style": style, "tier": tier, **dataclasses.asdict(cost)}
    found["activations"] *= costs.capacity_batch(model, batch_size)
    paper = (papers or {}).get(tier) if style in ("embracing", "width") else None
    return {**found, "paper": _compare(found, paper) if paper else ""}


def _compare(ours: Mapping[str, Any], paper: tuple[int, int, float]) -> str:
    text = "{:,} / {:,} / {:.2f}".format(*paper)
    found = ours["parameters"], ours["activations"], round(ours["capacity"], 2)
    if found == paper:
        return f"{text} equal"
    p, a, c = (x - y for x, y in zip(found, paper))
    return f"{text} difference {p:+,} / {a:+,} / {c:+.2f}"


def _table_2(model: ModelSpec, name: str) -> list[dict[str, Any]]:
    batch, figures = _TABLE_2[name]
    clients = [costs.backprop_suffix(model, Cut(removed), batch) for removed in range(len(figures))]
    ours = [client.operations(steps=1, batch_size=batch, examples=0) for client in clients]
    return [
        {
            "removed": removed,
            "operations": ours[removed],
            "ratio": ours[removed] / ours[0],
            "paper": paper,
            "paper_ratio": paper / figures[0],
            "difference": f"{ours[removed] - paper:+,}" if ours[removed] != paper else "equal",
        }
        for removed, paper in enumerate(figures)
    ]


def _spec(name: str, shape: tuple[int, ...], num_classes: int, width: float = 1.0) -> ModelSpec:
    cuts, batch = models.TIERS.get(name, ({}, None))
    return ModelSpec(
        lambda: models.create(name, shape, num_classes, width),
        shape,
        "int32" if name == "bilstm" else "float32",
        cuts={tier: Cut(*cut) for tier, cut in cuts.items()},
        capacity_batch=batch,
    )


def _default_input(name: str) -> tuple[tuple[int, ...], int]:
    """Shape and classes of the data that the papers use the model for."""
    if name == "bilstm":
        return (256,), 2
    if name in _GRAY_MODELS:
        return (28, 28, 1), 62 if name == "femnist_cnn" else 10
    return (32, 32, 3), 10


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
        lines += ["", *_align(found["fedpmt_table_2"]), "", _SLIPS[found["model"]]]
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


class _Parser(argparse.ArgumentParser):
    def error(self, message: str) -> NoReturn:
        raise ValueError(message)


def _parse(argv: Sequence[str]) -> argparse.Namespace:
    summary = "Prints what training a model costs a client."
    parser = _Parser("python -m tff_partial.costs", description=summary, allow_abbrev=False)
    parser.add_argument("--model", default="resnet20", help=", ".join(models.NAMES))
    parser.add_argument("--batch_size", default="32", help="examples in a local step")
    parser.add_argument("--task", help="whose input and classes to take; by default the papers'")
    parser.add_argument("--num_classes", help="other than the task's")
    parser.add_argument("--tiers", default=",".join(tiers.NAMES), help="such as strong,7,0.3")
    parser.add_argument("--json", action="store_true", help="prints JSON")
    try:
        return parser.parse_args(argv)
    except ValueError as error:
        given = " ".join(argv)
        raise ValueError(f"flags must be as in --help: {error}. Received: {given}") from None


def _input(args: argparse.Namespace) -> tuple[tuple[int, ...], int]:
    """Shape of an example and number of classes."""
    if args.model not in models.NAMES:
        raise ValueError(
            f"model must be one of {sorted(models.NAMES)}. Received: model={args.model!r}"
        )
    shape, num_classes = _default_input(args.model)
    if args.task is not None:
        if args.task not in tasks.TASKS:
            raise ValueError(
                f"task must be one of {sorted(tasks.TASKS)}. Received: task={args.task!r}"
            )
        task = tasks.TASKS[args.task]
        shape, num_classes = task.input_shape, task.num_classes
        dtype = "int32" if task.demo.model in config.TOKEN_MODELS else "uint8"
        data = types.SimpleNamespace(input_shape=shape, x_dtype=np.dtype(dtype))
        config.check_model_fits(args.model, data)
    return shape, _positive("num_classes", args.num_classes or str(num_classes))


def _positive(name: str, text: str) -> int:
    if not (text.isdecimal() and int(text) > 0):
        raise ValueError(f"{name} must be a positive integer. Received: {name}={text!r}")
    return int(text)


def main(argv: Sequence[str]) -> int:
    """Prints the report that the flags ask for; returns the exit code."""
    os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")
    try:
        args = _parse(argv)
        batch_size = _positive("batch_size", args.batch_size)
        found = report(args.model, *_input(args), batch_size, args.tiers.split(","))
    except ValueError as error:
        print(f"error: {error}", file=sys.stderr)
        return 2
    print(json.dumps(found) if args.json else _format(found))
    return 0
