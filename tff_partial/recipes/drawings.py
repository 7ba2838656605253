"""Figures that are drawn from a table's runs: recipes without runs of their own.

    title = "Figure 6: learning curves of CIFAR-10, IID data"
    of = "table1"                              # a recipe of the same folder
    rows = ["cifar10"]                         # as --only takes them
    quantities = ["global_loss", "test_accuracy"]

`--recipe=<paper>/figure6` runs these rows of the table, in the table's folder. The report draws the
figure in the table's section.
"""

from __future__ import annotations

import dataclasses

from tff_partial.recipes import catalog
from tff_partial.recipes.schema import Recipe
from tff_partial.report.curves import QUANTITIES, Drawing
from tff_partial.results import checks
from tff_partial.results.checks import Json, fail


@dataclasses.dataclass(frozen=True)
class _Document:
    title: str
    of: str
    rows: tuple[str, ...]
    quantities: tuple[str, ...]
    notes: tuple[str, ...] = ()


def parse(name: str, data: Json, base: Recipe) -> Recipe:
    """Return the recipe of a figure: the rows of a table that it draws.

    Raises:
      ValueError: If it is not in the format, or the table has no such rows.
    """
    where = f"{name}.toml"
    document = checks.parse(_Document, where, data, closed=True)
    if base.kind != "runs" and document.quantities:
        fail(f"{where}, quantities", "be empty unless the table's rows are runs", base.kind)
    unknown = [each for each in document.quantities if each not in QUANTITIES]
    if unknown or (base.kind == "runs" and not document.quantities):
        fail(f"{where}, quantities", f"be some of {', '.join(QUANTITIES)}", document.quantities)
    rows = catalog.select(base, ",".join(document.rows))
    return dataclasses.replace(
        base,
        name=name,
        title=document.title,
        rows=rows,
        notes=(*document.notes, *base.notes),
        claims=(),
        of=base.name,
        quantities=document.quantities,
    )


def all_of() -> dict[str, list[Drawing]]:
    """Return recipe -> the figures that are drawn from its runs, itself if it is one."""
    found: dict[str, list[Drawing]] = {}
    for name in catalog.names():
        recipe = catalog.load(name)
        if recipe.quantities:
            ids = tuple(row.id for row in recipe.rows)
            drawing = Drawing(name, recipe.title, ids, recipe.quantities)
            found.setdefault(recipe.of or name, []).append(drawing)
    return found
