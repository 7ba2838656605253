"""Writes the reference of all flags, docs/flags.md, from their declarations.

python -m tff_partial.cli.flag_reference docs/flags.md
"""

from __future__ import annotations

import sys
from collections.abc import Iterable, Sequence

from absl import flags as absl_flags

from tff_partial.algorithms import registry
from tff_partial.cli import command_line, main, run
from tff_partial.experiments import flags
from tff_partial.results import text_files

_HEAD = """# Flags

Written by `make docs` from the declarations; do not edit. Every flag of `run_experiment.py` is also
an argument of `tff_partial.run`. `python run_experiment.py --describe=<algo> --task=<task>` prints
an algorithm's flags with their values in a preset. A flag `--[no]name` is switched on by `--name`
and off by `--noname`.
"""
_COMMANDS = """## Other commands

`tff-partial <command>` and, for all but `run`, `python -m tff_partial.<command>` are the same (the
worker is `python -m tff_partial.runtime.worker`). `--help` lists a command's flags."""


def text() -> str:
    """Return the page."""
    values = absl_flags.FlagValues()
    run.define_flags(values)
    choices = set(flags.DECIDING) - {*flags.SETTINGS, *flags.DEVICES, *flags.OWNERS}
    sections = {
        "What to run": [name for name in flags.DECIDING if name in choices],
        "Settings of a run": flags.SETTINGS,
        "Simulated devices": flags.DEVICES,
        "Execution": flags.EXECUTING,
        "Recipes and sweeps": run.RECIPE_FLAGS,
        "Questions": ("list", "describe"),
    }
    parts = [_HEAD]
    for title, names in sections.items():
        preset = "the preset's" if title == "Settings of a run" else ""
        rows = [_row(values[name], preset) for name in names]
        parts.append(_table(f"## {title}", ("flag", "default", "meaning"), rows))
    parts.append("## Hyperparameters\n")
    for algo, algorithm in registry.ALGORITHMS.items():
        owned = [values[name] for name, owner in flags.OWNERS.items() if owner == algo]
        meanings = [(_name(flag), flag.help) for flag in owned]
        title = f"### {algo}\n\n{algorithm.title[0].upper()}{algorithm.title[1:]}."
        parts.append(_table(title, ("flag", "meaning"), meanings))
    commands = [(f"`{name}`", meaning) for name, meaning in main.COMMANDS.items()]
    parts.append(_table(_COMMANDS, ("command", ""), commands))
    return "\n".join(parts)


def _name(flag: absl_flags.Flag) -> str:
    return f"`--{'[no]' if flag.boolean else ''}{flag.name}`"


def _row(flag: absl_flags.Flag, preset: str) -> tuple[str, str, str]:
    default = preset if flag.default in (None, "") else f"`{flag.default}`"
    return _name(flag), default.replace("`False`", "off"), flag.help.replace("<", "&lt;")


def _table(title: str, head: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    lines = [head, ["---"] * len(head), *rows]
    cells = [" | ".join(cell.replace("|", "\\|").strip() for cell in line) for line in lines]
    return f"{title}\n\n" + "".join(f"| {line} |\n" for line in cells).replace("|  |", "| |")


def write(arguments: Sequence[str]) -> int:
    """Write the page to the file that the argument names; return the exit code."""
    parser = command_line.Parser("cli.flag_reference", __doc__)
    parser.add_argument("output", help="File to write.")
    try:
        text_files.write_text(parser.read(arguments).output, text())
    except ValueError as error:
        return command_line.fail(error, code=2)
    return 0


if __name__ == "__main__":
    command_line.run(write, sys.argv[1:])
