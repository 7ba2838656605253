"""What the tiers of a run take: figures, a table for the terminal, and what to say of them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Union

from tff_partial.core.model import ModelSpec
from tff_partial.core.types import Cell, Row
from tff_partial.costs import budgets, clients
from tff_partial.costs.clients import ClientCost
from tff_partial.tiers import Tier

MEGABYTE = 1e-6
# Times by which a tier may take less than its budget, or more, before it is said.
_FACTOR = 1.5
_NOUNS = {"memory": "memory", "compute": "operations", "params": "parameters"}

Figures = dict[str, Union[int, float]]


def figures(cost: ClientCost, whole: ClientCost, batch_size: int) -> Figures:
    """Return the shares of the whole model's memory and operations; parameters and bytes."""
    shares = budgets.shares(cost, whole, batch_size)
    return {
        "memory": round(shares["memory"], 6),
        "compute": round(shares["compute"], 6),
        "parameters": cost.parameters,
        "bytes_down": cost.bytes_down,
        "bytes_up": cost.bytes_up,
    }


def remark(
    model: ModelSpec,
    tier: Tier,
    cost: ClientCost,
    strong: ClientCost,
    batch_size: int,
    are_rates: bool = False,
) -> str:
    """Return a sentence if a tier equals strong or is far from its budget; else an empty text.

    Args:
      model: The model.
      tier: The tier.
      cost: What a round costs a client of it.
      strong: What it costs a strong one.
      batch_size: Examples in a local step.
      are_rates: Whether the algorithm trains sub-models, for which a rate is met by itself.
    """
    is_one = tier.kind == "rate" and tier.value == 1
    if cost == strong and not (tier.is_whole or is_one):
        return f"tier {tier.name} trains the whole model, as strong does"
    if not tier.is_budget or (are_rates and tier.kind == "rate"):
        return ""
    kind, most = budgets.limit(tier, model, batch_size)
    whole = clients.whole(model, batch_size)
    taken = budgets.shares(cost, whole, batch_size)[kind]
    if most / _FACTOR <= taken <= most * _FACTOR:
        return ""
    noun, share = _NOUNS[kind], f"{taken:.3g}"
    if taken > most:
        return f"tier {tier.name} takes {share} of the {noun}: there is nothing as small as that"
    return f"tier {tier.name} takes {share} of the {noun}: what is next in size takes too much"


def lines(rows: Sequence[Mapping[str, Any]], heads: Sequence[str] = ("tier",)) -> list[str]:
    """Return the figures of each row as a table that begins with the columns `heads`."""
    return aligned(
        [
            {
                **{head: each[head] for head in heads},
                "memory": f"{each['memory']:.3g}",
                "compute": f"{each['compute']:.3g}",
                "parameters": int(each["parameters"]),
                "MB down": f"{each['bytes_down'] * MEGABYTE:.3g}",
                "MB up": f"{each['bytes_up'] * MEGABYTE:.3g}",
            }
            for each in rows
        ],
        right=("memory", "compute", "MB down", "MB up"),
    )


def aligned(rows: Sequence[Row], right: Sequence[str] = ()) -> list[str]:
    """Return the lines of a table: texts to the left, numbers and `right` columns to the right."""
    cells = [[_cell(value) for value in row.values()] for row in rows]
    table = [list(rows[0]), *cells]
    widths = [max(map(len, column)) for column in zip(*table)]
    left = [isinstance(value, str) and name not in right for name, value in rows[0].items()]
    return [
        "  ".join(
            c.ljust(w) if is_left else c.rjust(w) for c, w, is_left in zip(row, widths, left)
        ).rstrip()
        for row in table
    ]


def _cell(value: Cell) -> str:
    if isinstance(value, float):
        return f"{value:.2f}"
    return f"{value:,}" if isinstance(value, int) else str(value)
