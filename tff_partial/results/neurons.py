"""activations.csv and examples.csv: how strongly clients' examples activate each neuron.

`python -m tff_partial.activations` writes them and the pictures of FedDSE's figures 2, 6, 7 and 8;
the report draws the same pictures.
"""

from __future__ import annotations

import itertools
import statistics
from collections.abc import Mapping, Sequence

from typing_extensions import TypeAlias

from tff_partial.results import pictures, text_files
from tff_partial.results.checks import Json

ACTIVATIONS, EXAMPLES = "activations.csv", "examples.csv"
COLUMNS = ("client", "layer", "name", "neuron", "activation")
EXAMPLE_COLUMNS = ("client", "label", "x", "y")
EVERYBODY = "all clients"
SHARE = 1 / 3  # of a layer's neurons that count as the most active ones
Rows: TypeAlias = Sequence[Mapping[str, Json]]
"""Rows of activations.csv or of examples.csv."""


def read(path: str, is_example: bool = False) -> list[dict[str, Json]]:
    """Read activations.csv, or examples.csv; no rows without a file.

    Raises:
      ResultsError: If it is something else.
    """
    kinds = dict(zip(EXAMPLE_COLUMNS, (str, int, float, float)))
    if not is_example:
        kinds = dict(zip(COLUMNS, (str, int, str, int, float)))
    try:
        table = text_files.read_csv(path)
        return [{name: kind(row[name]) for name, kind in kinds.items()} for row in table]
    except FileNotFoundError:
        return []
    except (KeyError, ValueError) as error:
        raise text_files.ResultsError(f"{path} must be of activations. Received: {error}") from None


def by_layer(rows: Rows) -> dict[str, dict[str, list[float]]]:
    """Return layer -> client -> the mean activation of each neuron."""
    layers: dict[str, dict[str, list[float]]] = {}
    for row in rows:
        clients = layers.setdefault(row["name"], {})
        clients.setdefault(row["client"], []).append(row["activation"])
    return layers


def in_common(rows: Rows) -> dict[str, list[float]]:
    """Return layer -> the share of the most active third that each pair of clients has in common.

    With neurons drawn at random it would be a third.
    """
    found = {}
    for name, clients in by_layer(rows).items():
        best = [_most_active(each) for client, each in clients.items() if client != EVERYBODY]
        pairs = itertools.combinations(best, 2)
        found[name] = [len(a & b) / len(a) for a, b in pairs]
    return found


def _most_active(activations: Sequence[float]) -> set[int]:
    count = max(1, round(SHARE * len(activations)))
    order = sorted(range(len(activations)), key=lambda i: -activations[i])
    return set(order[:count])


def table(rows: Rows) -> list[list[str]]:
    """Return `in_common` as lines of texts, heads first."""
    heads = ["layer", "neurons", "least in common, %", "mean, %", "most, %"]
    sizes = {name: len(next(iter(each.values()))) for name, each in by_layer(rows).items()}
    lines = [
        [
            name,
            str(sizes[name]),
            *(f"{100 * v:.0f}" for v in (min(shares), statistics.fmean(shares), max(shares))),
        ]
        for name, shares in in_common(rows).items()
        if shares
    ]
    return [heads, *lines]


def draw(rows: Rows, examples: Rows) -> dict[str, pictures.Picture]:
    """Return the pictures of FedDSE's figures by their names, such as `figure2`."""
    layers = by_layer(rows)
    clients = [c for c in dict.fromkeys(row["client"] for row in rows) if c != EVERYBODY]
    two = clients[:2]
    pairs = list(itertools.combinations(clients, 2))
    panels = [_panel(name, layers[name], two) for name in layers]
    whole = [_scaled(name, each[EVERYBODY]) for name, each in layers.items()]
    drawn = {
        "figure2": pictures.Picture(
            "Figure 2: mean activation of each neuron, two clients; in the last panel all clients' "
            "data, each layer on a scale of its own",
            (*panels, pictures.Panel("all clients' data", "neuron", dict(whole))),
        ),
        "figure6": pictures.Picture(
            "Figure 6: activations of the last hidden layer, an example a point, along their two "
            "principal components",
            (_scatter(examples),),
        ),
    }
    hidden = list(layers)[:-1] or list(layers)
    for figure, name in zip(("figure7", "figure8"), hidden):
        drawn[figure] = pictures.Picture(
            f"{figure.capitalize()[:-1]} {figure[-1]}: mean activation of each neuron of {name}, "
            "every pair of clients",
            tuple(_panel(f"{a} and {b[-1]}", layers[name], (a, b)) for a, b in pairs),
        )
    return drawn


def _panel(
    title: str, clients: Mapping[str, Sequence[float]], names: Sequence[str]
) -> pictures.Panel:
    lines = {name: [(float(i), v) for i, v in enumerate(clients[name], 1)] for name in names}
    return pictures.Panel(title, "neuron", lines)


def _scaled(name: str, values: Sequence[float]) -> tuple[str, pictures.Points]:
    """Return a layer's activations, divided by the largest, so that layers fit into a panel."""
    largest = max(map(abs, values)) or 1.0
    return f"{name}, all clients", [(i, value / largest) for i, value in enumerate(values, start=1)]


def _scatter(examples: Rows) -> pictures.Panel:
    points: dict[str, pictures.Points] = {}
    for row in examples:
        points.setdefault(row["client"], []).append((row["x"], row["y"]))
    return pictures.Panel("", "first component", points, is_scatter=True)
