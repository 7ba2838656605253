"""What training a model costs a client, beside the papers' figures.

python -m tff_partial.costs --model=resnet20 --tiers=strong,7,0.3
python -m tff_partial.costs --model=resnet20 --compare=fedavg,embracing,heterofl --tier=memory:0.25
"""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Callable, Optional

from tff_partial import costs
from tff_partial.algorithms import registry
from tff_partial.algorithms.declaration import Algorithm
from tff_partial.cli import command_line
from tff_partial.core import checks, own_code
from tff_partial.core.local_training import LocalTraining
from tff_partial.core.model import Cut, ModelSpec
from tff_partial.core.types import Row
from tff_partial.costs import overview
from tff_partial.experiments import bundled, own
from tff_partial.experiments.bundled import models
from tff_partial.recipes import catalog, exact
from tff_partial.tiers import NAMED_RATES, NAMES, Tier, as_tiers, create


def main(arguments: Sequence[str]) -> int:
    """Print the report that the arguments ask for; return the exit code."""
    parser = command_line.Parser("costs", __doc__)
    add = parser.add_argument
    add("--model", default="resnet20", help=f"{', '.join(models.NAMES)}.")
    add("--batch_size", default="32", help="Examples in a local step.")
    add("--task", help="Task whose input and classes to take; by default those of the paper.")
    add("--num_classes", help="Number of classes, if other than the task's.")
    add("--tiers", default=",".join(NAMES), help="Tiers, such as strong,7,0.3.")
    add("--compare", help="Algorithms to put beside each other, such as fedavg,embracing,heterofl.")
    add("--tier", help="Tiers to compare them at, such as memory:0.25; --tiers by default.")
    add("--json", action="store_true", help="Print JSON.")
    try:
        flags = parser.read(arguments)
        batch_size = _positive("batch_size", flags.batch_size)
        shape, classes = default_input(flags.model, flags.task)
        classes = _positive("num_classes", flags.num_classes or str(classes))
        if flags.compare is not None:
            model = bundled.create_model(flags.model, shape, classes)
            names = (flags.tier or flags.tiers).split(",")
            found = compare(model, flags.compare.split(","), names, batch_size)
            text = _format_comparison(flags.model, found)
        elif flags.tier is not None:
            raise ValueError(f"tier must be given with compare. Received: tier={flags.tier!r}")
        else:
            asked = as_tiers(flags.tiers.split(","))
            found = report(flags.model, shape, classes, batch_size, asked)
            text = _format(found)
    except ValueError as error:
        return command_line.fail(error, code=2)
    print(json.dumps(found) if flags.json else text)
    return 0


def compare(
    model: ModelSpec, algorithms: Sequence[str], tiers: Sequence[str], batch_size: int
) -> dict[str, Any]:
    """Return what clients of the same tiers take with each algorithm.

    An algorithm without tiers has one row: all its clients do the same.

    Raises:
      ValueError: If an algorithm is unknown, or a tier does not exist for it.
    """
    whole, rows = costs.whole(model, batch_size), []
    for name in algorithms:
        checks.one_of("compare", name, registry.ALGORITHMS)
        for tier, cost, remark in _compared(model, registry.ALGORITHMS[name], tiers, batch_size):
            figures = overview.figures(cost, whole, batch_size)
            rows.append({"algorithm": name, "tier": tier, **figures, "note": remark})
    return {"batch_size": batch_size, "rows": rows}


def _compared(
    model: ModelSpec, algorithm: Algorithm[Any], tiers: Sequence[str], batch_size: int
) -> Iterator[tuple[str, costs.ClientCost, str]]:
    """Yield for each tier its name, what a client of it takes, and a remark."""
    has_tiers = "tiers" in algorithm.needs
    known = {"tiers": ("strong", *tiers), "population": 1, "active": 1}
    needed = {name: known[name] for name in algorithm.needs if name in known}
    params = algorithm.params(local=LocalTraining(steps=1, batch_size=batch_size), **needed)
    strong = algorithm.cost(model, params, create("strong"))
    if not has_tiers:
        yield "all", strong, "has no tiers: all clients do the same"
    for tier in params.tiers[1:] if has_tiers else ():
        cost = algorithm.cost(model, params, tier)
        yield (
            tier.name,
            cost,
            overview.remark(model, tier, cost, strong, batch_size, algorithm.tiers_are_rates),
        )


def _format_comparison(name: str, found: Mapping[str, Any]) -> str:
    lines = [f"{name}, batches of {found['batch_size']}; memory and compute of the whole model's"]
    lines += ["", *overview.lines(found["rows"], ("algorithm", "tier"))]
    notes = [f"{row['algorithm']}: {row['note']}" for row in found["rows"] if row["note"]]
    return "\n".join([*lines, *([""] if notes else []), *notes])


def default_input(model: str, task: Optional[str] = None) -> tuple[tuple[int, ...], int]:
    """Return the input shape and number of classes of a task; by default of the model's paper.

    Raises:
      ValueError: If there is no such model or task, or the model does not take its examples.
    """
    if task is not None:
        chosen, _ = own.task_of(task)
        bundled.check_model_fits(model, chosen)
        return chosen.input_shape, chosen.num_classes
    if own_code.is_name(model):
        raise ValueError(f"task must be given with a model of your own. Received: model={model!r}")
    checks.one_of("model", model, models.NAMES)
    return models.ARCHITECTURES[model].input_shape, models.ARCHITECTURES[model].num_classes


def report(
    name: str, shape: tuple[int, ...], num_classes: int, batch_size: int, tiers: Sequence[Tier]
) -> dict[str, Any]:
    """Return the costs of a model by style of training and tier, and the papers' figures.

    `prefix` removes as many blocks as the tier does, from the other end; `channel` sends half of
    the channels unless the tier is strong; `width` keeps that share of the channels.
    """
    model = bundled.create_model(name, shape, num_classes)
    is_own = own_code.is_name(name)
    is_papers = not is_own and (shape, num_classes) == default_input(name)
    published = exact.published_sizes(name) if is_papers else {}
    clients = _clients(model, batch_size, tiers)
    for width in () if is_own else (NAMED_RATES["moderate"], NAMED_RATES["weak"]):
        small = bundled.create_model(name, shape, num_classes, width)
        clients["width", f"{width:g}"] = costs.narrow(model, small, batch_size)
    return {
        "model": name,
        "input_shape": shape,
        "num_classes": num_classes,
        "batch_size": batch_size,
        "activations_batch": costs.capacity_batch(model, batch_size),
        "rows": [
            _row(model, batch_size, key, cost, published.get(key)) for key, cost in clients.items()
        ],
        "fedpmt_table_2": _table_2(model, name, batch_size) if is_papers else [],
    }


def _clients(
    model: ModelSpec, batch_size: int, tiers: Sequence[Tier]
) -> dict[tuple[str, str], costs.ClientCost]:
    cuts = {tier.name: costs.cut_of(tier, model, batch_size) for tier in tiers}
    styles: dict[str, Callable[[Cut], costs.ClientCost]] = {
        "embracing": lambda cut: costs.recorded_suffix(model, cut, batch_size),
        "fedpmt": lambda cut: costs.backprop_suffix(model, cut, batch_size),
        "prefix": lambda cut: costs.prefix(model, cut.blocks, batch_size),
        "channel": lambda cut: costs.channels(model, 0.5 if cut.blocks else 1.0, batch_size),
    }
    return {(style, tier): cost(cuts[tier]) for style, cost in styles.items() for tier in cuts}


def _row(
    model: ModelSpec,
    batch_size: int,
    key: tuple[str, str],
    cost: costs.ClientCost,
    paper: Optional[str],
) -> Row:
    activations = costs.capacity_batch(model, batch_size) * cost.activations
    numbers = {**dataclasses.asdict(cost), "activations": activations}
    verdict = "equal" if exact.sizes(model, cost).text == paper else "differs"
    return {
        "style": key[0],
        "tier": key[1],
        **numbers,
        "paper": f"{paper} {verdict}" if paper else "",
    }


def _table_2(model: ModelSpec, name: str, batch_size: int) -> list[Row]:
    figures = exact.published_operations(name, batch_size)
    ours = exact.step_operations(model, batch_size, len(figures))
    return [
        {
            "removed": removed,
            "operations": own,
            "ratio": own / ours[0],
            "paper": paper,
            "paper_ratio": paper / figures[0],
            "difference": f"{own - paper:+,}" if own != paper else "equal",
        }
        for removed, (own, paper) in enumerate(zip(ours, figures))
    ]


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
        *overview.aligned(report["rows"]),
    ]
    if report["fedpmt_table_2"]:
        why_they_differ = catalog.load("fedpmt/table2").notes[0]
        lines += ["", f"FedPMT, table II: operations of a step of {report['batch_size']} examples"]
        lines += ["", *overview.aligned(report["fedpmt_table_2"]), "", why_they_differ]
    return "\n".join(line.rstrip() for line in lines)
