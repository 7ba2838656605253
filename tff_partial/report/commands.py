"""The command that repeats a run, and text without the paths of the machine it ran on."""

from __future__ import annotations

import dataclasses
import os
import re
import shlex
from collections.abc import Mapping, Sequence
from typing import Any, Optional

import tasks
from tff_partial.report.runs import Row, Run

FOLDER = "<folder>"
# Flags that have a default of their own, which no preset changes.
DEFAULTS = {"device_speeds": [1.0], "full_model_seconds": 10.0, "augment": False}
_OF_ALL = ("normalization", "augment", "device_speeds", "round_deadline", "full_model_seconds")
_DATA_DIR = re.compile(r"(--?data_dir(?:=|\s+))('[^']*'|\"[^\"]*\"|[^\s'\"]+)")
# A path from the root: of a flag, of the interpreter, or a word of its own.
_ABSOLUTE = re.compile(r"(?P<before>^|[\s='\"(,])(?P<path>/[^\s'\"),]*/[^\s'\"),]+)")


def of_runs(runs: Sequence[Run]) -> str:
    """Repeats runs that differ in nothing but their seeds; a shell's loop where there are several.

    Every setting of config.json is a flag, so that a preset that changes later does not matter.
    """
    settings, execution = runs[0].settings, runs[0].config.get("execution", {})
    flags = [
        *_flags(settings),
        *_data_flags(runs[0], execution.get("data_dir")),
    ]
    return with_seeds(" ".join(["python run_experiment.py", *flags]), runs)


def with_seeds(command: str, runs: Sequence[Run]) -> str:
    """The command with the seeds of runs; a shell's loop where there are several."""
    seeds = [str(run.seed) for run in runs]
    if len(seeds) == 1:
        return f"{command} --seed={seeds[0]}"
    return f"for seed in {' '.join(seeds)}; do {command} --seed=$seed; done"


def grouped(rows: Sequence[Row]) -> dict[str, list[Row]]:
    """Command -> the rows that it repeats; exact tables have one for all."""
    found: dict[str, list[Row]] = {}
    for row in rows:
        if row.command:
            found.setdefault(row.command, []).append(row)
    return found


def _flags(settings: Mapping[str, Any]) -> list[str]:
    algo = settings["algo"]
    fields = [field.name for field in dataclasses.fields(tasks.Settings) if field.name != "source"]
    params = [name for name in settings if name.startswith(f"{algo}_") and name not in fields]
    given = {name: settings.get(name) for name in ("task", "algo", "preset")}
    given["paper"] = _paper(settings)
    given |= {name: settings.get(name) for name in (*fields, *_OF_ALL, *params)}
    if given["target_accuracy"] is None:
        given["target_accuracy"] = 0  # none, whatever the preset has
    wanted = {k: v for k, v in given.items() if v not in (None, "") and v != DEFAULTS.get(k)}
    return [f"--{name}={shlex.quote(text_of(value))}" for name, value in wanted.items()]


def _paper(settings: Mapping[str, Any]) -> Optional[str]:
    """Whose preset it was; the settings have its source only."""
    if settings.get("preset") != "paper" or settings["task"] not in tasks.TASKS:
        return None
    papers = tasks.TASKS[settings["task"]].papers
    sources = {preset.source: name for name, preset in papers.items()}
    return sources.get(settings.get("source", ""))


def text_of(value: Any) -> str:
    """A setting as a flag has it; empty for none."""
    if value is None:
        return ""
    if isinstance(value, (list, tuple)):
        return ",".join(map(text_of, value))
    if isinstance(value, bool):
        return str(value).lower()
    return repr(value).removesuffix(".0") if isinstance(value, float) else str(value)


def _data_flags(run: Run, data_dir: Optional[str]) -> list[str]:
    if run.data.startswith("generated:"):
        return []
    if not run.is_real:
        return ["--data=embedded"]
    return ["--data=tfds", *([f"--data_dir={FOLDER}"] if data_dir else [])]


def shown_folder(root: str, path: str) -> str:
    """A folder below a results folder, from that one's name on."""
    relative = os.path.relpath(path, root)
    shown = os.path.normpath(os.path.join(os.path.basename(os.path.abspath(root)), relative))
    return shown.encode("utf-8", "backslashreplace").decode()  # a name need not be text


def clean(text: str, roots: Sequence[str] = ()) -> str:
    """The text without paths of a machine.

    Folders below `roots` are named from the root's own name on, the folder of the data and any
    other is '<folder>', and a program is named without its folder.
    """
    text = _DATA_DIR.sub(rf"\g<1>{FOLDER}", text)
    for root in sorted(map(os.path.abspath, roots), key=len, reverse=True):
        text = re.sub(rf"{re.escape(root)}(?![\w.-])", os.path.basename(root), text)
    return _ABSOLUTE.sub(_without_path, text)


def _without_path(match: re.Match[str]) -> str:
    before, path = match["before"], match["path"]
    name = os.path.basename(path)
    is_program = before.strip() == "" and (name.startswith("python") or name.endswith(".py"))
    return before + (name if is_program else FOLDER)
