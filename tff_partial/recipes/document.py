"""recipe.json or sweep.json: what the results are; the report and a later start read it."""

from __future__ import annotations

import dataclasses
import pathlib
from collections.abc import Sequence
from typing import TYPE_CHECKING, Callable, Optional

from tff_partial.recipes import differences
from tff_partial.recipes import scale as recipe_scale
from tff_partial.recipes.schema import Recipe, Row
from tff_partial.results import checks, schema, text_files
from tff_partial.results.schema import RecipeResults, RecipeRow
from tff_partial.system import folder_lock

if TYPE_CHECKING:
    from tff_partial.recipes.plan import Options, PlannedRow

NAME = schema.RECIPE_FILE
_PATIENCE = 10.0  # seconds; another start writes for less than one


def create(
    recipe: Recipe, rows: Sequence[Row], planned: Sequence[PlannedRow], options: Options
) -> RecipeResults:
    """Return the document.

    Args:
      recipe: The recipe.
      rows: Those of its rows that are run.
      planned: The plan of each row; empty for exact tables.
      options: What the user asks for.
    """
    plans = {each.row.id: each for each in planned}
    own = f"python run_experiment.py --recipe={recipe.name}"
    embedded = sorted({each.experiment.task.name for each in planned if each.is_embedded})
    notes = [f"Embedded data stand for {name}, not the real set." for name in embedded]
    notes += _reasons(recipe, rows) if options.reduced else []
    return RecipeResults(
        recipe.name,
        recipe.title,
        recipe.paper,
        recipe.kind,
        recipe.metric,
        tuple(_row(row, plans.get(row.id), own) for row in rows),
        options.scale,
        recipe_scale.RULE if planned and not options.reduced else "",
        (*recipe.notes, *notes),
        dict(options.deciding),
        options.reduced,
        differences.text([(each.paper, each.experiment) for each in planned]),
        len(recipe.rows),
    )


def _reasons(recipe: Recipe, rows: Sequence[Row]) -> list[str]:
    """Return why the reduced settings differ from the paper's, and what they lead to."""
    reasons = dict.fromkeys(
        f"{name.replace('_', ' ')} {each.value}: {each.why}"
        for row in rows
        for name, each in row.reduced.items()
    )
    measured = [f"Reduced settings, measured: {recipe.measured}"] if recipe.measured else []
    return [f"Reduced settings: {'; '.join(reasons)}.", *measured]


def _row(row: Row, planned: Optional[PlannedRow], own: str) -> RecipeRow:
    command = planned.command if planned else own
    stands_in = row.stands_in or (
        planned is not None and planned.experiment.task is not planned.paper.task
    )
    return RecipeRow(row.id, row.label, row.columns, command, stands_in, row.paper)


def merged(path: pathlib.Path, document: RecipeResults, recipe: Recipe) -> RecipeResults:
    """Return the document with the rows of an earlier start with the same settings.

    Raises:
      ValueError: If its settings were different.
    """
    try:
        previous = checks.parse(RecipeResults, NAME, text_files.read_json(str(path)))
    except FileNotFoundError:
        return document
    except (OSError, ValueError) as error:
        raise ValueError(f"{path} must be that of a recipe. Received: {error}") from None
    rows = {row.id: row for row in previous.rows}
    for row in document.rows:
        before = rows.get(row.id, row)
        if before.command != row.command or previous.given != document.given:
            raise ValueError(
                "output_dir must be new or hold this recipe with the same settings and data. "
                f"Received: {path.parent} with `{before.command}`"
            )
        rows[row.id] = row
    ordered = tuple(rows[row.id] for row in recipe.rows if row.id in rows)
    return dataclasses.replace(document, rows=ordered)


def write(folder: pathlib.Path, merge: Callable[[], RecipeResults]) -> None:
    """Write recipe.json or sweep.json, complete or not at all.

    Several starts in one folder share its runs (`runner`); the file gets the rows of all.

    Args:
      folder: The folder.
      merge: Returns the document, with what is in the folder; no other start writes meanwhile.

    Raises:
      ResultsError: If the folder cannot be written.
      ValueError: If another start with other settings was faster.
    """

    def fields(pairs: list[tuple[str, object]]) -> dict[str, object]:
        return {name: value for name, value in pairs if name != "targets" or value}

    try:
        folder.mkdir(parents=True, exist_ok=True)
        with folder_lock.FolderLock(str(folder), patience=_PATIENCE):
            document = merge()
            content = dataclasses.asdict(document, dict_factory=fields)
            text_files.write_json(str(folder / document.file), content)
    except OSError as error:
        raise text_files.ResultsError(
            f"output_dir must be a folder that can be written. Received: {error}"
        ) from error
