"""The papers' tables that need no training: ours are counted from the models (`costs`).

A recipe of kind `exact` names a function of `TABLES`, which returns ours for every row's id.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Callable, NamedTuple, Optional

from tff_partial import costs, tiers
from tff_partial.core.lazy import tf
from tff_partial.core.model import Cut, ModelSpec
from tff_partial.experiments import bundled
from tff_partial.processes import submodel
from tff_partial.recipes import catalog, claim_figures, document, outcome
from tff_partial.recipes.plan import Plan
from tff_partial.results import text_files
from tff_partial.results.schema import Published
from tff_partial.submodels import groups, narrowing

_BATCH = 32
# FedPMT's networks: id in the recipe, batch size, number of rows.
_FEDPMT = {
    "fedpmt_fcnn": ("fcnn", 12, 4),
    "fedpmt_cnn_mnist": ("cnn", 12, 4),
    "fedpmt_cnn_cifar10": ("cifar10", 20, 5),
}
_MEGA, _GIGA, _MEBI, _BYTES = 1e6, 1e9, 2**20, 4


class Ours(NamedTuple):
    """Our number for a row, in the metric's unit, and as it is shown."""

    value: Optional[float]
    text: str


def embracing_table1() -> dict[str, Ours]:
    """Return parameters, activations and capacity of each tier."""
    found: dict[str, Ours] = {}
    for name in ("resnet20", "femnist_cnn", "bilstm"):
        model = _create(name)
        clients = {tier: _recorded(model, tier) for tier in tiers.NAMES}
        found |= {f"{name}-{tier}": sizes(model, cost) for tier, cost in clients.items()}
    return found


def embracing_table10() -> dict[str, Ours]:
    """Return the same of width reduction."""
    model = _create("resnet20")
    return {tier: sizes(model, cost) for tier, cost in _narrowed(model).items()}


def embracing_table8() -> dict[str, Ours]:
    """Return operations of a batch of 32, as shares of the strong client's."""
    model = _create("resnet20")
    methods = {
        "embracing": {tier: _recorded(model, tier) for tier in tiers.NAMES},
        "width": _narrowed(model),
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
    """Return operations of a step with 0, 1, ... blocks less in the backward pass."""
    found = {}
    for name, (network, batch, count) in _FEDPMT.items():
        ours = step_operations(_create(name), batch, count)
        for removed, value in enumerate(ours):
            text = f"{value:,} ({100 * value / ours[0]:.3g} %)"
            found[f"{network}-{removed}"] = Ours(value, text)
    return found


def step_operations(model: ModelSpec, batch_size: int, count: int) -> list[int]:
    """Return FedPMT's operations of a step with 0, 1, ..., count - 1 blocks removed."""
    clients = [costs.backprop_suffix(model, Cut(removed), batch_size) for removed in range(count)]
    return [cost.operations(steps=1, batch_size=batch_size, examples=0) for cost in clients]


def feddse_table7() -> dict[str, Ours]:
    """Return memory, computation and communication of a whole model and of a third of it.

    The third is masked on the `outputs` of layers, or on `both` sides.
    """
    model, batch, third = _create("resnet18_imagenet"), 8, 1 / 3
    small = submodel.create_submodel(model, third)
    clients = {
        "fedavg": costs.whole(model, batch),
        "outputs": costs.narrow(model, narrowing.create_padded(model, small.sizes), batch),
        "both": costs.narrow(model, small.spec, batch),
    }
    found: dict[str, Ours] = {}
    for method, cost in clients.items():
        amounts = {
            "memory": _BYTES * 2 * (cost.parameters + batch * cost.activations) / _MEBI,
            "computation": batch * cost.forward / _GIGA,
            "communication": _BYTES * cost.parameters / _MEBI,
        }
        found |= {f"{method}-{name}": Ours(v, f"{v:.2f}") for name, v in amounts.items()}
    sent = _BYTES * _made(model, third) / _MEBI
    rounded = found["outputs-communication"].text
    text = f"{sent:.2f} ({rounded} with whole channels, rounded up)"
    return {**found, "outputs-communication": Ours(sent, text)}


def _made(model: ModelSpec, rate: float) -> float:
    """Return a rate of the parameters that make channels; the last layer's count whole."""
    with tf.Graph().as_default():
        shapes = [variable.shape for variable in model.instantiate().trainable]
    made = groups.analyse(model).made
    sliced = [any(axis and axis.repeats for axis in axes) for axes in made]
    return sum(s.num_elements() * (rate if cut else 1) for s, cut in zip(shapes, sliced))


TABLES: dict[str, Callable[[], dict[str, Ours]]] = {
    "embracing_table1": embracing_table1,
    "embracing_table8": embracing_table8,
    "embracing_table10": embracing_table10,
    "fedpmt_table2": fedpmt_table2,
    "feddse_table7": feddse_table7,
}


def published_sizes(name: str) -> dict[tuple[str, str], str]:
    """Return EmbracingFL's sizes of a model's clients by (style of training, tier or width)."""
    table1 = {row.id: row.paper.text for row in catalog.load("embracing/table1").rows}
    found = {
        ("embracing", t): table1[f"{name}-{t}"] for t in tiers.NAMES if f"{name}-{t}" in table1
    }
    if name == "resnet20":
        table10 = {row.id: row.paper.text for row in catalog.load("embracing/table10").rows}
        found |= {("width", f"{width:g}"): table10[t] for t, width in tiers.NAMED_RATES.items()}
    return found


def published_operations(name: str, batch_size: int) -> list[int]:
    """Return FedPMT's own figures of these operations; none for another batch size."""
    network, batch, count = _FEDPMT.get(name, ("", 0, 0))
    if batch != batch_size:
        return []
    table = {row.id: row.paper.value for row in catalog.load("fedpmt/table2").rows}
    return [int(table[f"{network}-{removed}"] or 0) for removed in range(count)]


def _create(name: str, width: float = 1.0) -> ModelSpec:
    """Return a model for the data of its paper."""
    architecture = bundled.models.ARCHITECTURES[name]
    return bundled.create_model(name, architecture.input_shape, architecture.num_classes, width)


def _recorded(model: ModelSpec, tier: str) -> costs.ClientCost:
    """Return the cost of a client of EmbracingFL."""
    return costs.recorded_suffix(model, costs.cut_of(tiers.create(tier), model, _BATCH), _BATCH)


def _narrowed(model: ModelSpec) -> dict[str, costs.ClientCost]:
    """Return the costs of clients of width reduction of ResNet20 by tier."""
    narrow = {tier: _create("resnet20", width) for tier, width in tiers.NAMED_RATES.items()}
    return {tier: costs.narrow(model, small, _BATCH) for tier, small in narrow.items()}


def sizes(model: ModelSpec, cost: costs.ClientCost) -> Ours:
    """Return a client's capacity; as text its parameters, activations and capacity."""
    capacity = round(cost.capacity, 2)
    activations = costs.capacity_batch(model, _BATCH) * cost.activations
    return Ours(capacity, f"{cost.parameters:,} / {activations:,} / {capacity:.2f}")


def _forward(cost: costs.ClientCost) -> int:
    return _BATCH * (cost.record + cost.forward)


def _backward(cost: costs.ClientCost) -> int:
    return _BATCH * cost.backward + cost.update


def show(plan: Plan, write: bool = True) -> str:
    """Return the table, paper's and ours beside each other.

    Args:
      plan: Of a recipe of kind `exact`.
      write: Whether recipe.json and, as <row>/seed-0/summary.json, our numbers are written.

    Raises:
      ValueError: If there is no such table, or its rows are not the recipe's.
    """
    recipe = plan.recipe
    if recipe.source not in TABLES:
        raise ValueError(f"source must be one of {sorted(TABLES)}. Received: {recipe.source!r}")
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
    if claim_figures.is_equal(ours.text, paper.text):
        return "equal"
    if ours.value is None or paper.value is None:
        return "differs"
    return f"{ours.value - paper.value:+,.2f}".removesuffix(".00")


def _write(plan: Plan, ours: Mapping[str, Ours]) -> None:
    document.write(plan.folder, plan.merge)
    for row in plan.rows:
        place = plan.folder / row.id / "seed-0"
        place.mkdir(parents=True, exist_ok=True)
        value = {plan.recipe.metric.name: ours[row.id].value, "text": ours[row.id].text}
        text_files.write_json(str(place / "summary.json"), value)
