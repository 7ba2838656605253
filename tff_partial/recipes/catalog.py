"""Recipes: a table or figure of a paper as data, one file `recipes/<paper>/<name>.toml` each.

A recipe names the runs, what is varied, the metric and the paper's own numbers; `recipe_schema` is
its format, `recipe_plan` makes runs of it.
"""

from __future__ import annotations

import os
import pathlib
import re
from typing import Any

from tff_partial.recipes import schema
from tff_partial.recipes.schema import Recipe, Row

FOLDER = pathlib.Path(__file__).resolve().parents[2] / "recipes"
PAPERS = ("embracing", "partial_averaging", "fedumf", "feddse", "fedpmt")


def names() -> list[str]:
    """All recipes, such as `embracing/table3`, the papers' first."""
    found = [(path.parent.name, path.stem) for path in FOLDER.glob("*/*.toml")]
    return [f"{paper}/{stem}" for paper, stem in sorted(found, key=_order)]


def _order(name: tuple[str, str]) -> Any:
    """By paper, table2 before table10."""
    paper, stem = name
    parts = [(int(part), "") if part.isdigit() else (0, part) for part in re.split(r"(\d+)", stem)]
    return PAPERS.index(paper) if paper in PAPERS else len(PAPERS), paper, parts


def load(name: str) -> Recipe:
    """Reads a recipe.

    Args:
      name: Such as `embracing/table3`, or the path of a file `<folder>/<name>.toml`.

    Raises:
      ValueError: If there is none of this name, or it does not keep to the format.
    """
    is_path = name.endswith(".toml")
    path = pathlib.Path(name).resolve() if is_path else FOLDER / f"{name}.toml"
    # A path's own is_file raises an error where the name is too long.
    if not (is_path or re.fullmatch(r"\w+/[\w.-]+", name)) or not os.path.isfile(path):
        raise ValueError(
            f"recipe must be one of {', '.join(names())} or a file. Received: recipe={name!r}"
        )
    toml = _toml()
    try:
        data = toml.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError, RecursionError) as error:  # of TOML and UTF-8 too
        raise ValueError(f"{path.name} must be TOML. Received: {error}") from None
    return schema.parse(f"{path.parent.name}/{path.stem}", data)


def _toml() -> Any:
    try:
        import tomllib
    except ImportError:
        try:
            import tomli as tomllib
        except ImportError:
            raise ValueError(
                "recipes must be read with Python 3.11 or the package tomli. Received: neither"
            ) from None
    return tomllib


def select(recipe: Recipe, only: str) -> tuple[Row, ...]:
    """The rows that `only` names, all if it is empty: ids, or whole words of them.

    `case5` is the row case5, or the rows case5-static and case5-global.

    Raises:
      ValueError: If a word names no row.
    """
    words = [word for word in only.split(",") if word]
    chosen = set()
    for word in words:
        found = {row.id for row in recipe.rows if f"-{word}-" in f"-{row.id}-"}
        if not found:
            known = ", ".join(row.id for row in recipe.rows)
            raise ValueError(f"only must name rows of {known}. Received: only={word}")
        chosen |= found
    return tuple(row for row in recipe.rows if not words or row.id in chosen)
