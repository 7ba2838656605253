"""Commands that repeat runs, and text without the paths of the machine it ran on."""

from __future__ import annotations

import os
import re
import shlex
from collections.abc import Sequence
from typing import Optional

from tff_partial.report.runs import Row, Run
from tff_partial.results.checks import Json
from tff_partial.results.schema import OPTIMIZERS

FOLDER = "<folder>"
# Defaults of flags that no preset changes.
DEFAULTS = {
    "device_speeds": [1.0],
    "full_model_seconds": 10.0,
    "augment": False,
    "precision": "float32",
    "record_precision": "float32",
    **OPTIMIZERS,
}
# Settings of config.json that are no flags, or are added apart.
_NO_FLAGS = ("task", "algo", "preset", "data", "source", "seed", "average_capacity")
# How `source` of a paper's preset began before config.json named the paper.
_SOURCES = {
    "EmbracingFL": "embracingfl",
    "Partial averaging": "partial_averaging",
    "FedPMT, section V-B and table II (CNN": "fedpmt_cnn",
    "FedPMT": "fedpmt",
    "FedUMF, appendix": "fedumf_appendix",
    "FedUMF": "fedumf",
    "FedDSE": "feddse",
    "FedProx": "fedprox",
}
# A function or an object of a user's: my_module:fn with a digest of what it is.
_OWN = re.compile(r"[^#]+:[^#]+#[0-9a-f]{8}|\w+#[0-9a-f]{8}")
_DATA_DIR = re.compile(r"(--?data_dir(?:=|\s+))('[^']*'|\"[^\"]*\"|[^\s'\"]+)")
# An absolute path: of a flag, of the interpreter, or a word by itself.
_ABSOLUTE = re.compile(r"(?P<before>^|[\s='\"(,])(?P<path>/[^\s'\"),]*/[^\s'\"),]+)")


def of_runs(runs: Sequence[Run]) -> str:
    """Return the command that repeats runs which differ only in their seeds.

    Every setting of config.json is a flag, so that a preset that changes later does not matter.
    Clients and functions of a user's that have no name on the command line are left to Python.
    """
    if _is_python(runs[0]):
        return "tff_partial.run(...) # with a user's own clients or functions"
    words = ["python run_experiment.py", *_flags(runs[0]), *_data_flags(runs[0])]
    return with_seeds(" ".join(words), runs)


def with_seeds(command: str, runs: Sequence[Run]) -> str:
    """Return the command with the seeds of runs: a shell loop if there are several."""
    seeds = [str(run.seed) for run in runs]
    if len(seeds) == 1:
        return f"{command} --seed={seeds[0]}"
    return f"for seed in {' '.join(seeds)}; do {command} --seed=$seed; done"


def grouped(rows: Sequence[Row]) -> dict[str, list[Row]]:
    """Return command -> the rows that it repeats; an exact table has one command for all."""
    by_command: dict[str, list[Row]] = {}
    for row in rows:
        if row.command:
            by_command.setdefault(row.command, []).append(row)
    return by_command


def _flags(run: Run) -> list[str]:
    settings, own = run.settings, f"{run.settings['algo']}_"
    flags = {name: settings.get(name) for name in ("task", "algo", "preset")}
    flags["paper"] = _paper(run)
    others = [name for name in settings if name not in _NO_FLAGS and name.isidentifier()]
    # The algorithm's hyperparameters come last.
    flags |= {name: settings[name] for name in sorted(others, key=lambda n: n.startswith(own))}
    if flags.get("target_accuracy") is None:
        flags["target_accuracy"] = 0  # none, whatever the preset has
    wanted = {k: v for k, v in flags.items() if v not in (None, "") and v != DEFAULTS.get(k)}
    return [f"--{name}={shlex.quote(text_of(value))}" for name, value in wanted.items()]


def _is_python(run: Run) -> bool:
    names = [text for text in map(str, run.settings.values()) if _OWN.fullmatch(text)]
    nameless = [text for text in names if "<" in text or text.startswith("__main__:")]
    return run.data.startswith("own: ") or bool(nameless)


def _paper(run: Run) -> Optional[str]:
    """Return whose preset it is."""
    if run.settings.get("preset") != "paper":
        return None
    source = run.settings.get("source") or ""
    old = (paper for start, paper in _SOURCES.items() if source.startswith(start))
    return run.config.execution.get("paper") or next(old, None)


def _data_flags(run: Run) -> list[str]:
    if run.data.startswith("generated:"):
        return []
    if not run.is_real:
        return ["--data=embedded"]
    folder = [f"--data_dir={FOLDER}"] if run.config.execution.get("data_dir") else []
    return ["--data=tfds", *folder]


def text_of(value: Json) -> str:
    """Return a setting as a flag has it; empty for None."""
    if value is None:
        return ""
    if isinstance(value, str):
        return value.partition("#")[0] if _OWN.fullmatch(value) else value
    if isinstance(value, (list, tuple)):
        return ",".join(map(text_of, value))
    if isinstance(value, bool):
        return str(value).lower()
    return repr(value).removesuffix(".0") if isinstance(value, float) else str(value)


def shown_folder(root: str, path: str) -> str:
    """Return a folder below a results folder, from that one's name on."""
    relative = os.path.relpath(path, root)
    shown = os.path.normpath(os.path.join(os.path.basename(os.path.abspath(root)), relative))
    return shown.encode("utf-8", "backslashreplace").decode()  # a name need not be text


def clean(text: str, roots: Sequence[str] = ()) -> str:
    """Return the text without paths of the machine.

    Folders below `roots` are named from the root's own name on, programs without their folder; the
    folder of the data and all others become '<folder>'.
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
