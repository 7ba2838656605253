"""Finds what a report shows: recipes, and single runs grouped so that their curves compare."""

from __future__ import annotations

import dataclasses
import json
import os
import sys
from collections.abc import Mapping, Sequence
from typing import Any

from tff_partial.report import commands, recipes, runs
from tff_partial.report.recipes import Section
from tff_partial.report.runs import ReportError, Row, Run

# Settings that decide nothing about the training that other settings do not.
_NOT_VARIED = ("seed", "source", "preset", "task", "data", "model", "algo")


def find(roots: Sequence[str]) -> list[Section]:
    """The sections of some results folders: recipes by name and scale, then single runs.

    Raises:
      ReportError: If a folder is missing, nothing is found, or files are not as they should be, a
        line for each.
    """
    of_recipes: dict[str, Section] = {}
    singles: dict[str, Run] = {}
    damaged: dict[str, None] = {}
    for root in roots:
        if not os.path.isdir(root):
            raise ReportError(f"results must be a folder. Received: {root}")
        for folder, kind in _walk(root):
            place = os.path.realpath(folder)  # folders may overlap
            try:
                if kind == "recipe" and place not in of_recipes:
                    of_recipes[place] = recipes.read(root, folder)
                elif kind == "run" and place not in singles:
                    singles[place] = _single(root, folder)
            except (ReportError, OSError) as error:
                damaged[" ".join(str(error).split())] = None
    found = _told_apart(sorted(of_recipes.values(), key=_order))
    found += group(list(singles.values()))
    if damaged and not found:
        raise ReportError("\n".join(damaged))
    for line in damaged:
        print(f"warning: left out: {line}", file=sys.stderr)
    if not found:
        raise ReportError(
            "results must hold runs (config.json and metrics.csv) or recipes (recipe.json). "
            f"Received: {', '.join(roots)}"
        )
    return found


def _single(root: str, folder: str) -> Run:
    run = runs.read_run(folder, commands.shown_folder(root, folder))
    if not run.settings:
        raise ReportError(f"config.json must have the settings of a run. Received: {run.folder}")
    return run


def _order(section: Section) -> tuple[str, float, str]:
    return section.recipe, -(section.scale or 0.0), str(section.given)


def _told_apart(found: Sequence[Section]) -> list[Section]:
    """Recipes that were run more than once have in their title what they differ in."""
    return [
        dataclasses.replace(section, title=f"{section.title} ({differs})")
        if (differs := _differences(section, [o for o in found if o.recipe == section.recipe]))
        else section
        for section in found
    ]


def _differences(section: Section, same: Sequence[Section]) -> str:
    names = dict.fromkeys(name for each in same for name in each.given)
    differs = [name for name in names if len({each.given.get(name) for each in same}) > 1]
    scales = len({each.scale for each in same}) > 1
    words = [f"scale {section.scale:g}"] if scales and section.scale is not None else []
    return ", ".join([*words, *(f"{n}={section.given[n]}" for n in differs if n in section.given)])


def _walk(root: str) -> list[tuple[str, str]]:
    """Folders of recipes and of runs; what is below one of them belongs to it."""
    found = []
    for folder, inner, names in os.walk(root):
        inner.sort()
        if recipes.RECIPE in names:
            found.append((folder, "recipe"))
        elif {"config.json", "metrics.csv"} <= {*names}:
            found.append((folder, "run"))
        else:
            continue
        inner.clear()
    return found


def group(singles: Sequence[Run]) -> list[Section]:
    """Sections of single runs: one for each task, data and model, a row for equal settings."""
    groups: dict[tuple[str, ...], list[Run]] = {}
    for run in singles:
        task, model = (str(run.settings.get(name, "")) for name in ("task", "model"))
        groups.setdefault((task, model, run.data), []).append(run)
    titles = [f"{task}, {model}" for task, model, _ in groups]
    return [
        Section(
            # The data stand below the title, which names them only where it must.
            title=f"{task}, {model}"
            + (f", {data}" if titles.count(f"{task}, {model}") > 1 else ""),
            rows=_rows(groups[task, model, data]),
        )
        for task, model, data in sorted(groups)
    ]


def _rows(found: Sequence[Run]) -> tuple[Row, ...]:
    equal: dict[str, list[Run]] = {}
    for run in found:
        # A setting that older runs do not have yet is as good as None.
        settings = {k: v for k, v in run.settings.items() if k != "seed" and v is not None}
        equal.setdefault(json.dumps(settings, sort_keys=True), []).append(run)
    joined = [runs.one_of_each_seed(same) for same in equal.values()]
    varied = _varied([same[0].settings for same in joined])
    rows = [_row(same, varied) for same in joined]
    return tuple(sorted(rows, key=lambda row: row.label))


def _varied(settings: Sequence[Mapping[str, Any]]) -> list[str]:
    names = dict.fromkeys(name for each in settings for name in each if name not in _NOT_VARIED)
    return [name for name in names if len({repr(each.get(name)) for each in settings}) > 1]


def _row(same: Sequence[Run], varied: Sequence[str]) -> Row:
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
        tuple(same),
        short=algo,
    )
