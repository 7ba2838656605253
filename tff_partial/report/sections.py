"""Finds what a report shows: recipes, sweeps, and single runs, grouped so that curves compare."""

from __future__ import annotations

import dataclasses
import json
import os
import re
import sys
from collections.abc import Sequence
from typing import Optional

from tff_partial.report import commands, recipes, runs
from tff_partial.report.recipes import Section
from tff_partial.report.runs import ReportError, Row, Run
from tff_partial.results.schema import RECIPE_FILE, SWEEP_FILE, Fields, Published

# Settings that decide nothing about the training that other settings do not.
_NOT_VARIED = ("seed", "source", "preset", "task", "data", "model", "algo")


def find(roots: Sequence[str]) -> list[Section]:
    """Return the sections of some results folders: recipes, sweeps, then single runs.

    Damaged files are left out with a warning.

    Raises:
      ReportError: If a folder is missing, or there is nothing to show; a line for each reason.
    """
    tables: dict[str, Section] = {}
    singles: dict[str, Run] = {}
    damaged: dict[str, None] = {}
    for root in roots:
        if not os.path.isdir(root):
            raise ReportError(f"results must be a folder. Received: {root}")
        for folder, is_recipe in _walk(root):
            place = os.path.realpath(folder)  # folders may overlap
            try:
                if is_recipe and place not in tables:
                    tables[place] = recipes.read(root, folder)
                elif not is_recipe and place not in singles:
                    singles[place] = _single(root, folder)
            except (ReportError, OSError) as error:
                damaged[" ".join(str(error).split())] = None
    sections = _told_apart(sorted(tables.values(), key=_order)) + group(list(singles.values()))
    if sections:
        for line in damaged:
            print(f"warning: left out: {line}", file=sys.stderr)
        return sections
    if damaged:
        raise ReportError("\n".join(damaged))
    raise ReportError(
        "results must hold runs (config.json and metrics.csv) or recipes (recipe.json). "
        f"Received: {', '.join(roots)}"
    )


def _single(root: str, folder: str) -> Run:
    run = runs.read_run(folder, commands.shown_folder(root, folder))
    if not run.settings:
        raise ReportError(f"config.json must have the settings of a run. Received: {run.folder}")
    return run


def _order(section: Section) -> tuple[bool, str, float, str]:
    recipe = section.results.recipe
    return not recipe, recipe, -(section.scale or 0.0), section.title + str(section.given)


def _told_apart(sections: Sequence[Section]) -> list[Section]:
    """Add to the titles of a recipe that was run more than once what its sections differ in."""
    titled = []
    for section in sections:
        recipe = section.results.recipe
        same = [
            other
            for other in sections
            if other.results.recipe == recipe and (recipe or other.title == section.title)
        ]
        differs = _differences(section, same)
        title = f"{section.title} ({differs})" if differs else section.title
        titled.append(dataclasses.replace(section, title=title))
    return titled


def _differences(section: Section, same: Sequence[Section]) -> str:
    names = dict.fromkeys(name for each in same for name in each.given)
    differs = [name for name in names if len({each.given.get(name) for each in same}) > 1]
    scales = len({each.scale for each in same}) > 1
    words = [f"scale {section.scale:g}"] if scales and section.scale is not None else []
    is_reduced = section.results.reduced and not all(each.results.reduced for each in same)
    words += ["reduced"] if is_reduced else []
    return ", ".join([*words, *(f"{n}={section.given[n]}" for n in differs if n in section.given)])


def _walk(root: str) -> list[tuple[str, bool]]:
    """Return folders of recipes or sweeps (True) and of runs; what is below one belongs to it."""
    folders = []
    for folder, inner, names in os.walk(root):
        inner.sort()
        is_recipe = RECIPE_FILE in names or SWEEP_FILE in names
        if is_recipe or {"config.json", "metrics.csv"} <= {*names}:
            folders.append((folder, is_recipe))
            inner.clear()
    return folders


def group(singles: Sequence[Run]) -> list[Section]:
    """Return a section for each task, model and data, with a row for equal settings."""
    groups: dict[tuple[str, ...], list[Run]] = {}
    for run in singles:
        task, model = (str(run.settings.get(name, "")) for name in ("task", "model"))
        groups.setdefault((f"{task}, {model}", run.data), []).append(run)
    titles = [title for title, _ in groups]
    return [
        # The data stand below the title, which names them only if it must.
        Section(
            title + (f", {data}" if titles.count(title) > 1 else ""), _rows(groups[title, data])
        )
        for title, data in sorted(groups)
    ]


def _rows(singles: Sequence[Run]) -> tuple[Row, ...]:
    equal: dict[str, list[Run]] = {}
    for run in singles:
        # A setting that older runs lack is as good as None.
        settings = {k: v for k, v in run.settings.items() if k != "seed" and v is not None}
        equal.setdefault(json.dumps(settings, sort_keys=True), []).append(run)
    joined = [runs.one_of_each_seed(same) for same in equal.values()]
    varied = _varied([same[0].settings for same in joined])
    rows = [_row(same, varied) for same in joined]
    return tuple(sorted(rows, key=lambda row: row.label))


def _varied(settings: Sequence[Fields]) -> list[str]:
    names = dict.fromkeys(name for each in settings for name in each if name not in _NOT_VARIED)
    return [name for name in names if len({repr(each.get(name)) for each in settings}) > 1]


def _row(same: tuple[Run, ...], varied: Sequence[str]) -> Row:
    settings = same[0].settings
    algo = str(settings.get("algo", "?"))
    values = {name: commands.text_of(settings.get(name)).replace(",", ", ") for name in varied}
    given = [
        f"{name}={value}"
        for name, value in values.items()
        if value and settings[name] != commands.DEFAULTS.get(name)
    ]
    return Row(
        ", ".join([algo, *given]),
        {name: value or "–" for name, value in values.items()},
        commands.of_runs(same),
        same,
        Published(),
        short=algo,
    )


def read_remarks(folder: Optional[str], name: str) -> str:
    """Return the text of `<folder>/<name>.md`; empty if there is none, or no folder is given.

    Raises:
      ReportError: If the folder does not exist, or the file cannot be read.
    """
    if folder is None:
        return ""
    if not os.path.isdir(folder):
        raise ReportError(f"remarks must be a folder. Received: {folder}")
    try:
        with open(os.path.join(folder, f"{name}.md"), encoding="utf-8") as file:
            return file.read().strip()
    except FileNotFoundError:
        return ""
    except (OSError, ValueError) as error:
        raise ReportError(f"remarks must be texts in UTF-8. Received: {error}") from error


def add_remarks(sections: Sequence[Section], folder: Optional[str]) -> list[Section]:
    """Return the sections with their remarks; a recipe that was run twice has them at its last.

    Raises:
      ReportError: As `read_remarks`.
    """
    names = [section.results.recipe for section in sections]
    last = {name: i for i, name in enumerate(names)}
    texts = [read_remarks(folder, n) if n and last[n] == i else "" for i, n in enumerate(names)]
    return [
        dataclasses.replace(section, remarks=tuple(filter(None, re.split(r"\n\s*\n", text))))
        for section, text in zip(sections, texts)
    ]
