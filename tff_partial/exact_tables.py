"""The papers' tables that need no training: ours are counted from the models (`costs`).

A recipe of kind `exact` names a function of `TABLES`, which returns ours for every row's id.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from typing import Any, Callable, NamedTuple, Optional

import models
from tff_partial import cost_tables, costs, recipe_document, recipe_results, results
from tff_partial.model_spec import ModelSpec
from tff_partial.recipe_plan import Plan
from tff_partial.recipe_schema import Published

_TIERS = ("strong", "moderate", "weak")
_WIDTHS = {"strong": "strong", "moderate": "0.45", "weak": "0.2"}
# Shape of an example and classes of the data that the papers use a model for.
_INPUTS: Mapping[str, tuple[tuple[int, ...], int]] = {
    "resnet20": ((32, 32, 3), 10),
    "femnist_cnn": ((28, 28, 1), 62),
    "bilstm": ((256,), 2),
    "fedpmt_fcnn": ((28, 28, 1), 10),
    "fedpmt_cnn_mnist": ((28, 28, 1), 10),
    "fedpmt_cnn_cifar10": ((32, 32, 3), 10),
}
_MEGA, _GIGA, _BYTES = 1e6, 1e9, 4


class Ours(NamedTuple):
    """Our number for a row, in the metric's unit, and as it is shown."""

    value: Optional[float]
    text: str


def embracing_table1() -> dict[str, Ours]:
    """Parameters, activations and capacity of each tier."""
    found: dict[str, Ours] = {}
    for name in ("resnet20", "femnist_cnn", "bilstm"):
        rows = _costs(name, 32)
        found |= {f"{name}-{tier}": _sizes(rows["embracing", tier]) for tier in _TIERS}
    return found


def embracing_table10() -> dict[str, Ours]:
    """The same of width reduction."""
    rows = _costs("resnet20", 32)
    return {tier: _sizes(_of_width(rows, tier)) for tier in _TIERS}


def embracing_table8() -> dict[str, Ours]:
    """Operations of a batch of 32, as shares of the strong client's."""
    rows, batch = _costs("resnet20", 32), 32
    methods = {
        "embracing": {tier: rows["embracing", tier] for tier in _TIERS},
        "width": {tier: _of_width(rows, tier) for tier in _TIERS},
    }
    found = {}
    for method, by_tier in methods.items():
        for workload, count in (("forward", _forward), ("backward", _backward)):
            strong = count(by_tier["strong"], batch)
            for tier, row in by_tier.items():
                ours = count(row, batch)
                text = f"{ours / _MEGA:,.0f} M operations ({ours / strong:.2f})"
                found[f"{method}-{workload}-{tier}"] = Ours(ours / strong, text)
    return found


def fedpmt_table2() -> dict[str, Ours]:
    """Operations of a step with 0, 1, ... blocks less in the backward pass."""
    networks = {
        "fcnn": ("fedpmt_fcnn", 12),
        "cnn": ("fedpmt_cnn_mnist", 12),
        "cifar10": ("fedpmt_cnn_cifar10", 20),
    }
    found = {}
    for network, (name, batch) in networks.items():
        for row in cost_tables.report(name, *_INPUTS[name], batch, _TIERS)["fedpmt_table_2"]:
            text = f"{row['operations']:,} ({100 * row['ratio']:.3g} %)"
            found[f"{network}-{row['removed']}"] = Ours(row["operations"], text)
    return found


def feddse_table7() -> dict[str, Ours]:
    """Memory, computation and communication of a whole model and of a third of its neurons."""
    shape, batch = (32, 32, 3), 8
    model = ModelSpec(lambda: models.create("preact_resnet18", shape, 10), shape)
    clients = {"fedavg": costs.whole(model, batch), "feddse": _narrow(model, 1 / 3, batch)}
    found: dict[str, Ours] = {}
    for method, cost in clients.items():
        memory = _BYTES * 2 * (cost.parameters + batch * cost.activations) / _MEGA
        computation = cost.operations(steps=1, batch_size=batch, examples=0) / _GIGA
        amounts = {
            "memory": memory,
            "computation": computation,
            "communication": cost.bytes_up / _MEGA,
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


def _costs(name: str, batch: int) -> dict[tuple[str, str], Mapping[str, Any]]:
    """Costs by style of training and tier."""
    rows = cost_tables.report(name, *_INPUTS[name], batch, _TIERS)["rows"]
    return {(row["style"], row["tier"]): row for row in rows}


def _of_width(rows: Mapping[tuple[str, str], Mapping[str, Any]], tier: str) -> Mapping[str, Any]:
    """A tier of width reduction; the strong one is the whole model."""
    return rows["embracing" if tier == "strong" else "width", _WIDTHS[tier]]


def _sizes(row: Mapping[str, Any]) -> Ours:
    capacity = round(row["capacity"], 2)
    return Ours(capacity, f"{row['parameters']:,} / {row['activations']:,} / {capacity:.2f}")


def _forward(row: Mapping[str, Any], batch: int) -> int:
    return batch * (row["record"] + row["forward"])


def _backward(row: Mapping[str, Any], batch: int) -> int:
    return batch * row["backward"] + row["update"]


def _narrow(model: ModelSpec, rate: float, batch: int) -> costs.ClientCost:
    narrow = getattr(costs, "narrow", None)
    if narrow is None:
        raise ValueError("costs must have `narrow` for this table. Received: costs without it")
    return narrow(model, rate, batch)


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
    text = f"{recipe.title}\n{recipe.metric.label}\n\n{recipe_results.aligned(lines)}"
    return "\n".join([text, "", *recipe.notes])


def _compare(ours: Ours, paper: Published) -> str:
    if ours.text.split(" (")[0] == paper.text.split(" (")[0]:
        return "equal"
    if ours.value is None or paper.value is None:
        return "differs"
    return f"{ours.value - paper.value:+,.2f}".removesuffix(".00")


def _write(plan: Plan, ours: Mapping[str, Ours]) -> None:
    recipe_document.write(plan.folder, plan.document)
    for row in plan.rows:
        place = plan.folder / row.id / "seed-0"
        place.mkdir(parents=True, exist_ok=True)
        value = {plan.recipe.metric.name: ours[row.id].value, "text": ours[row.id].text}
        results.write_json(str(place / "summary.json"), value)
