"""The papers' tables that need no training: ours are counted from the models (`costs`).

A recipe of kind `exact` names a function of `TABLES`, which returns ours for every row's id.
"""

from __future__ import annotations

import dataclasses
import os
from collections.abc import Mapping
from typing import Callable, NamedTuple, Optional

import models
from tff_partial import costs
from tff_partial.core.model import Cut, ModelSpec
from tff_partial.costs import blocks
from tff_partial.processes import submodel
from tff_partial.recipes import document, outcome
from tff_partial.recipes.plan import Plan
from tff_partial.recipes.schema import Published
from tff_partial.results import folder

_TIERS = ("strong", "moderate", "weak")
_WIDTHS = {"strong": 1.0, "moderate": 0.45, "weak": 0.2}
_BATCH = 32
# Shape of an example and classes of the data that the papers use a model for.
_INPUTS: Mapping[str, tuple[tuple[int, ...], int]] = {
    "resnet20": ((32, 32, 3), 10),
    "femnist_cnn": ((28, 28, 1), 62),
    "bilstm": ((256,), 2),
    "fedpmt_fcnn": ((28, 28, 1), 10),
    "fedpmt_cnn_mnist": ((28, 28, 1), 10),
    "fedpmt_cnn_cifar10": ((32, 32, 3), 10),
}
_MEGA, _GIGA, _MEBI, _BYTES = 1e6, 1e9, 2**20, 4


class Ours(NamedTuple):
    """Our number for a row, in the metric's unit, and as it is shown."""

    value: Optional[float]
    text: str


def embracing_table1() -> dict[str, Ours]:
    """Parameters, activations and capacity of each tier."""
    found: dict[str, Ours] = {}
    for name in ("resnet20", "femnist_cnn", "bilstm"):
        model = _spec(name)
        clients = {tier: _recorded(model, tier) for tier in _TIERS}
        found |= {f"{name}-{tier}": _sizes(model, cost) for tier, cost in clients.items()}
    return found


def embracing_table10() -> dict[str, Ours]:
    """The same of width reduction."""
    model = _spec("resnet20")
    return {tier: _sizes(model, cost) for tier, cost in _narrowed("resnet20", model).items()}


def embracing_table8() -> dict[str, Ours]:
    """Operations of a batch of 32, as shares of the strong client's."""
    model = _spec("resnet20")
    methods = {
        "embracing": {tier: _recorded(model, tier) for tier in _TIERS},
        "width": _narrowed("resnet20", model),
    }
    found = {}
    for method, clients in methods.items():
        for workload, count in (("forward", _forward), ("backward", _backward)):
            strong = count(clients["strong"])
            for tier, cost in clients.items():
                text = f"{count(cost) / _MEGA:,.0f} M operations ({count(cost) / strong:.2f})"
                found[f"{method}-{workload}-{tier}"] = Ours(count(cost) / strong, text)
    return found


def fedpmt_table2() -> dict[str, Ours]:
    """Operations of a step with 0, 1, ... blocks less in the backward pass."""
    networks = {
        "fcnn": ("fedpmt_fcnn", 12, 4),
        "cnn": ("fedpmt_cnn_mnist", 12, 4),
        "cifar10": ("fedpmt_cnn_cifar10", 20, 5),
    }
    found = {}
    for network, (name, batch, count) in networks.items():
        model = _spec(name)
        clients = [costs.backprop_suffix(model, Cut(removed), batch) for removed in range(count)]
        ours = [cost.operations(steps=1, batch_size=batch, examples=0) for cost in clients]
        for removed, value in enumerate(ours):
            text = f"{value:,} ({100 * value / ours[0]:.3g} %)"
            found[f"{network}-{removed}"] = Ours(value, text)
    return found


def feddse_table7() -> dict[str, Ours]:
    """Memory, computation and communication of a whole model and of a third of its neurons."""
    shape, batch = (32, 32, 3), 8
    model = ModelSpec(lambda: models.create("preact_resnet18", shape, 10), shape)
    small = submodel.create_submodel(model, "1/3")
    clients = {
        "fedavg": costs.whole(model, batch),
        "feddse": costs.narrow(model, small.spec, batch),
    }
    found: dict[str, Ours] = {}
    for method, cost in clients.items():
        amounts = {
            "memory": _BYTES * 2 * (cost.parameters + batch * cost.activations) / _MEBI,
            "computation": batch * cost.forward / _GIGA,
            "communication": cost.bytes_up / _MEBI,
        }
        found |= {f"{method}-{name}": Ours(v, f"{v:.2f}") for name, v in amounts.items()}
    return found


TABLES: dict[str, Callable[[], dict[str, Ours]]] = {
    "embracing_table1": embracing_table1,
    "embracing_table8": embracing_table8,
    "embracing_table10": embracing_table10,
    "fedpmt_table2": fedpmt_table2,
    "feddse_table7": feddse_table7,
}


def _spec(name: str, width: float = 1.0) -> ModelSpec:
    """A model with what EmbracingFL's table 1 says of its tiers."""
    cuts, capacity_batch = models.TIERS.get(name, ({}, None))
    shape, num_classes = _INPUTS[name]
    return ModelSpec(
        lambda: models.create(name, shape, num_classes, width),
        shape,
        "int32" if name == "bilstm" else "float32",
        cuts={tier: Cut(*cut) for tier, cut in cuts.items()},
        capacity_batch=capacity_batch,
    )


def _recorded(model: ModelSpec, tier: str) -> costs.ClientCost:
    """A client of EmbracingFL."""
    return costs.recorded_suffix(model, costs.cut_of(tier, model, _BATCH), _BATCH)


def _narrowed(name: str, model: ModelSpec) -> dict[str, costs.ClientCost]:
    """The clients of width reduction by tier, their capacity that of the whole model's memory."""
    batch = costs.capacity_batch(model, _BATCH)
    whole = costs.memory(blocks.measure(model), batch)
    found = {}
    for tier, width in _WIDTHS.items():
        narrow = _spec(name, width)
        share = costs.memory(blocks.measure(narrow), batch) / whole
        found[tier] = dataclasses.replace(costs.whole(narrow, _BATCH), capacity=share)
    return found


def _sizes(model: ModelSpec, cost: costs.ClientCost) -> Ours:
    capacity = round(cost.capacity, 2)
    activations = costs.capacity_batch(model, _BATCH) * cost.activations
    return Ours(capacity, f"{cost.parameters:,} / {activations:,} / {capacity:.2f}")


def _forward(cost: costs.ClientCost) -> int:
    return _BATCH * (cost.record + cost.forward)


def _backward(cost: costs.ClientCost) -> int:
    return _BATCH * cost.backward + cost.update


def show(plan: Plan, write: bool = True) -> str:
    """The table, paper's and ours beside each other.

    Args:
      plan: Of a recipe of kind `exact`.
      write: Whether recipe.json and, as <row>/seed-0/summary.json, our numbers are written.

    Raises:
      ValueError: If there is no such table, or its rows are not the recipe's.
    """
    recipe = plan.recipe
    if recipe.source not in TABLES:
        raise ValueError(f"source must be one of {sorted(TABLES)}. Received: {recipe.source!r}")
    os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")
    ours = TABLES[recipe.source]()
    unknown = sorted({row.id for row in plan.rows} - set(ours))
    if unknown:
        raise ValueError(f"rows must be of {sorted(ours)}. Received: {unknown}")
    if write:
        _write(plan, ours)
    lines = [("row", "paper", "ours", "")]
    for row in plan.rows:
        found = ours[row.id]
        lines.append((row.label, row.paper.text, found.text, _compare(found, row.paper)))
    text = f"{recipe.title}\n{recipe.metric.label}\n\n{outcome.aligned(lines)}"
    return "\n".join([text, "", *recipe.notes])


def _compare(ours: Ours, paper: Published) -> str:
    if ours.text.split(" (")[0] == paper.text.split(" (")[0]:
        return "equal"
    if ours.value is None or paper.value is None:
        return "differs"
    return f"{ours.value - paper.value:+,.2f}".removesuffix(".00")


def _write(plan: Plan, ours: Mapping[str, Ours]) -> None:
    document.write(plan.folder, plan.document)
    for row in plan.rows:
        place = plan.folder / row.id / "seed-0"
        place.mkdir(parents=True, exist_ok=True)
        value = {plan.recipe.metric.name: ours[row.id].value, "text": ours[row.id].text}
        folder.write_json(str(place / "summary.json"), value)
