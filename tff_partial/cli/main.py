"""The console script `tff-partial`: one name for all commands.

`tff-partial run --task=imdb` is `python run_experiment.py --task=imdb`, and `tff-partial report` is
`python -m tff_partial.report`.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from typing import NoReturn

from tff_partial.cli import command_line
from tff_partial.core import checks

COMMANDS = {
    "run": "Train a model, or run a recipe: a table of a paper.",
    "ls": "List runs with their state, rounds and accuracy.",
    "report": "Write results as one page, or as Markdown.",
    "claims": "Print what our runs say about the papers' claims.",
    "compare": "Print the rounds that runs took to reach given accuracies.",
    "plots": "Draw the curves of several runs beside each other.",
    "costs": "Print what training a model costs a client, beside the papers' tables.",
    "similarity": "Measure how similar clients' local models become.",
    "activations": "Measure which neurons clients activate.",
    "check-gpu": "Check that training works on a GPU; print a report for an issue.",
    "worker": "Run a TFF worker on this host, for --runtime=remote.",
}


_USAGE = """usage: tff-partial <command> [flags]

{commands}

`tff-partial <command> --help` explains the flags of a command."""


def main() -> NoReturn:
    """Run the command that the first argument of the process names."""
    command, *arguments = sys.argv[1:] or ["--help"]
    if command in COMMANDS:
        command_line.start(command.replace("-", "_"), arguments)
    command_line.run(_explain, [command])


def _explain(arguments: Sequence[str]) -> int:
    """Print the help, or what is wrong with the name of a command; return the exit code."""
    (command,) = arguments
    if command not in ("-h", "--help"):
        known = ", ".join(COMMANDS)
        received = f"Received: {command!r}{checks.did_you_mean(command, COMMANDS)}"
        return command_line.fail(f"command must be one of {known}. {received}", code=2)
    lines = [f"  {name:<12}{text}" for name, text in COMMANDS.items()]
    print(_USAGE.format(commands="\n".join(lines)))
    return 0
