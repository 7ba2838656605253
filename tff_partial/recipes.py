"""Recipes: a table or figure of a paper as data, one file `recipes/<paper>/<name>.toml` each.

A recipe names the runs, what is varied, the metric and the paper's own numbers; `recipe_schema` is
its format, `recipe_plan` makes runs of it.
"""

from __future__ import annotations

import pathlib
import re
from typing import Any, Union

from tff_partial import recipe_schema
from tff_partial.recipe_schema import Recipe, Row

FOLDER = pathlib.Path(__file__).resolve().parent.parent / "recipes"
PAPERS = ("embracing", "partial_averaging", "fedumf", "feddse", "fedpmt")


def names() -> list[str]:
    """All recipes, such as `embracing/table3`, paper by paper."""
    found = [path for paper in PAPERS for path in sorted((FOLDER / paper).glob("*.toml"))]
    stems = [(path.parent.name, path.stem) for path in found]
    return [f"{paper}/{stem}" for paper, stem in sorted(stems, key=_natural)]


def _natural(name: tuple[str, str]) -> Any:
    """table2 before table10."""
    parts = re.split(r"(\d+)", name[1])
    numbered = [(int(part), "") if part.isdigit() else (0, part) for part in parts]
    return PAPERS.index(name[0]), numbered


def load(name: str, folder: Union[str, pathlib.Path, None] = None) -> Recipe:
    """Reads a recipe.

    Args:
      name: Such as `embracing/table3`.
      folder: Where recipes are; by default the project's.

    Raises:
      ValueError: If there is none of this name, or it does not keep to the format.
    """
    path = pathlib.Path(folder or FOLDER) / f"{name}.toml"
    if not re.fullmatch(r"\w+/[\w.-]+", name) or not path.is_file():
        raise ValueError(f"recipe must be one of {', '.join(names())}. Received: recipe={name!r}")
    toml = _toml()
    try:
        data = toml.loads(path.read_text(encoding="utf-8"))
    except (toml.TOMLDecodeError, UnicodeDecodeError) as error:
        raise ValueError(f"{name}.toml must be TOML. Received: {error}") from None
    return recipe_schema.parse(name, data)


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
