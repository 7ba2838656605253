"""The recipes of `recipes/<paper>/<name>.toml`, each a table or figure of a paper as data.

A recipe names the runs, what is varied, the metric and the paper's own numbers. `schema` is its
format; `plan` turns it into runs.
"""

from __future__ import annotations

import functools
import os
import pathlib
import re
import types

from tff_partial.core import checks
from tff_partial.recipes import schema
from tff_partial.recipes.schema import Recipe, Row
from tff_partial.results.checks import Json, fail

FOLDER = pathlib.Path(__file__).resolve().parents[2] / "recipes"
PAPERS = ("embracing", "partial_averaging", "fedumf", "feddse", "fedpmt")


def names() -> list[str]:
    """Return the names of all recipes, such as `embracing/table3`, those of our papers first."""
    paths = sorted(FOLDER.glob("*/*.toml"), key=_order)
    return [f"{path.parent.name}/{path.stem}" for path in paths]


def _order(path: pathlib.Path) -> tuple[int, str, list[tuple[int, str]]]:
    """Sort by paper, table2 before table10."""
    paper, parts = path.parent.name, re.split(r"(\d+)", path.stem)
    numbers = [(int(part), "") if part.isdigit() else (0, part) for part in parts]
    return PAPERS.index(paper) if paper in PAPERS else len(PAPERS), paper, numbers


def load(name: str) -> Recipe:
    """Read a recipe.

    Args:
      name: Such as `embracing/table3`, or the path of a file `<folder>/<name>.toml`.

    Raises:
      ValueError: If there is no such recipe, or it is not in the format.
    """
    is_path = name.endswith(".toml")
    path = pathlib.Path(name).resolve() if is_path else FOLDER / f"{name}.toml"
    # `path.is_file` raises an error if the name is too long.
    if not (is_path or re.fullmatch(r"\w+/[\w.-]+", name)) or not os.path.isfile(path):
        raise ValueError(
            f"recipe must be one of {', '.join(names())} or a file. Received: recipe={name!r}"
            f"{checks.did_you_mean(name, names())}"
        )
    return _read(path, os.stat(path).st_mtime_ns)


def beside(name: str, other: str) -> str:
    """Return what `load` takes for another recipe in the folder of this one."""
    if not name.endswith(".toml"):
        return other
    return str(pathlib.Path(name).resolve().parent / f"{other.rpartition('/')[2]}.toml")


@functools.lru_cache(maxsize=256)
def _read(path: pathlib.Path, unused_time: int) -> Recipe:
    """Read a file that has not been read since it was last changed: the ledger reads them all."""
    toml = _toml()
    try:
        data = toml.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError, RecursionError) as error:  # ValueError: of TOML and UTF-8
        raise ValueError(f"{path.name} must be TOML. Received: {error}") from None
    name = f"{path.parent.name}/{path.stem}"
    return _drawing(name, data, path) if "of" in data else schema.parse(name, data)


def _drawing(name: str, data: Json, path: pathlib.Path) -> Recipe:
    """Return the recipe of a figure, whose runs are those of a table in the same folder."""
    from tff_partial.recipes import drawings  # which selects rows

    base = path.parent / f"{data['of']}.toml"
    if not re.fullmatch(r"[\w.-]+", str(data["of"])) or base == path or not os.path.isfile(base):
        fail(f"{path.name}, of", f"be a recipe in {path.parent.name}", data["of"])
    table = _read(base, os.stat(base).st_mtime_ns)
    if table.of:
        fail(f"{path.name}, of", "be a recipe with runs of its own", data["of"])
    return drawings.parse(name, data, table)


def _toml() -> types.ModuleType:
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
    """Return the rows that `only` names: ids, or whole words of them; all if it is empty.

    `case5` is the row case5, or the rows case5-static and case5-global.

    Raises:
      ValueError: If a word names no row.
    """
    words = [word for word in only.split(",") if word]
    chosen = set()
    for word in words:
        ids = {row.id for row in recipe.rows if f"-{word}-" in f"-{row.id}-"}
        if not ids:
            known = [row.id for row in recipe.rows]
            meant = checks.did_you_mean(word, known)
            raise ValueError(
                f"only must name rows of {', '.join(known)}. Received: only={word}{meant}"
            )
        chosen |= ids
    return tuple(row for row in recipe.rows if not words or row.id in chosen)
