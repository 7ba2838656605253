"""recipe.json: what a recipe's results are of; the report and a later start read it."""

from __future__ import annotations

import dataclasses
import pathlib
from collections.abc import Mapping, Sequence
from typing import Any

from tff_partial.recipes import scale as recipe_scale
from tff_partial.recipes.schema import Recipe, Row
from tff_partial.results import folder as results

NAME = "recipe.json"


def create(
    recipe: Recipe,
    rows: Sequence[Row],
    planned: Sequence[Any],
    given: Mapping[str, Any],
    scale: float,
) -> dict[str, Any]:
    """The document.

    Args:
      recipe: The recipe.
      rows: Those of its rows that are run.
      planned: The `recipe_plan.PlannedRow` of each; none for exact tables.
      given: Flags of the user that decide results.
      scale: 1 is the paper.
    """
    commands = {found.row.id: found.command for found in planned}
    embedded = sorted({p.experiment.task.name for p in planned if p.is_embedded})
    notes = [*recipe.notes]
    notes += [f"Embedded data stand for {name}, not the real set." for name in embedded]
    own = f"python run_experiment.py --recipe={recipe.name}"
    return {
        "recipe": recipe.name,
        "title": recipe.title,
        "paper": recipe.paper,
        "kind": recipe.kind,
        "scale": scale,
        "scale_rule": recipe_scale.RULE if planned else "",
        "metric": dataclasses.asdict(recipe.metric),
        "rows": [_row(row, commands.get(row.id, own)) for row in rows],
        "notes": notes,
        "given": dict(given),
    }


def _row(row: Row, command: str) -> dict[str, Any]:
    paper = dataclasses.asdict(row.paper)
    targets = [{"target": target, "value": value} for target, value in paper.pop("targets")]
    return {
        "id": row.id,
        "label": row.label,
        "columns": dict(row.columns),
        "command": command,
        "stands_in": row.stands_in,
        "paper": {**paper, "targets": targets} if targets else paper,
    }


def merged(path: pathlib.Path, document: dict[str, Any], recipe: Recipe) -> dict[str, Any]:
    """The document with the rows that an earlier start with the same settings has left.

    Raises:
      ValueError: If its settings were others.
    """
    try:
        previous = results.read_json(str(path))
        rows = {str(row["id"]): {**row, "command": str(row["command"])} for row in previous["rows"]}
        given = previous["given"]
    except FileNotFoundError:
        return document
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise ValueError(f"{path} must be that of a recipe. Received: {error!r}") from None
    for row in document["rows"]:
        before = rows.get(row["id"], row)
        if before["command"] != row["command"] or given != document["given"]:
            raise ValueError(
                "output_dir must be new or hold this recipe with the same settings and data. "
                f"Received: {path.parent} with `{before['command']}`"
            )
        rows[row["id"]] = row
    known = [row.id for row in recipe.rows]
    return {**document, "rows": [rows[name] for name in known if name in rows]}


def write(folder: pathlib.Path, document: Mapping[str, Any]) -> None:
    """Writes recipe.json, complete or not at all.

    Raises:
      ResultsError: If the folder cannot be written.
    """
    try:
        folder.mkdir(parents=True, exist_ok=True)
        results.write_json(str(folder / NAME), document)
    except OSError as error:
        raise results.ResultsError(
            f"output_dir must be a folder that can be written. Received: {error}"
        ) from error
