"""The console script, and every command that the documents name."""

import configparser
import pathlib
import subprocess
import sys

import pytest

from tff_partial.cli import main

ROOT = pathlib.Path(__file__).parents[2]
MODULES = [
    "report",
    "ls",
    "compare",
    "check_gpu",
    "plots",
    "costs",
    "similarity",
    "runtime.worker",
    "cli",
]


def start(*arguments):
    return subprocess.run(
        [sys.executable, *arguments], cwd=ROOT, capture_output=True, text=True, timeout=120
    )


def tff_partial(monkeypatch, *arguments):
    """Runs the console script in this process; returns its exit code."""
    monkeypatch.setattr(sys, "argv", ["tff-partial", *arguments])
    with pytest.raises(SystemExit) as end:
        main.main()
    return end.value.code


@pytest.mark.parametrize("arguments", [["--help"], ["-h"], []])
def test_help_lists_every_command_with_a_line(arguments, monkeypatch, capsys):
    assert tff_partial(monkeypatch, *arguments) == 0
    lines = capsys.readouterr().out.splitlines()
    for name, text in main.COMMANDS.items():
        assert f"  {name:<12}{text}" in lines
    for name in main.COMMANDS:
        assert (ROOT / "tff_partial" / "cli" / f"{name.replace('-', '_')}.py").exists()


def test_an_unknown_command_is_one_line_and_exit_code_2(monkeypatch, capsys):
    assert tff_partial(monkeypatch, "repotr", "results") == 2
    (line,) = capsys.readouterr().err.splitlines()
    assert line.startswith(
        "error: command must be one of run, ls, report, claims, compare, plots, costs"
    )
    assert line.endswith("Received: 'repotr'. Did you mean report?")


def test_a_command_gets_the_arguments_that_follow_its_name(monkeypatch):
    started = []
    monkeypatch.setattr(main.command_line, "start", lambda *given: started.append(given))
    monkeypatch.setattr(sys, "argv", ["tff-partial", "run", "--task=mnist", "--rounds=2"])
    with pytest.raises(SystemExit):  # `start` would have ended the process
        main.main()
    assert started == [("run", ["--task=mnist", "--rounds=2"])]


def test_run_is_run_experiment():
    script = start("run_experiment.py", "--list")
    command = start("-m", "tff_partial.cli", "run", "--list")
    assert script.returncode == command.returncode == 0
    assert script.stdout == command.stdout
    wrong = start("-m", "tff_partial.cli", "run", "--task=nothing")
    assert wrong.returncode == 2
    assert wrong.stderr.startswith("error: task must be one of ")


@pytest.mark.parametrize("module", MODULES)
def test_every_documented_module_has_help(module):
    process = start("-m", f"tff_partial.{module}", "--help")
    assert process.returncode == 0
    assert process.stdout.startswith("usage: ")
    assert process.stderr == ""


@pytest.mark.parametrize("module", ["report", "ls", "compare", "plots", "runtime.worker"])
def test_wrong_arguments_are_one_line_and_exit_code_2(module):
    process = start("-m", f"tff_partial.{module}", "--nothing")
    assert process.returncode == 2
    (line,) = process.stderr.splitlines()
    assert line.startswith("error: ")


def test_the_console_script_is_installed_with_the_package():
    config = configparser.ConfigParser()
    config.read(ROOT / "setup.cfg")
    (line,) = config["options.entry_points"]["console_scripts"].split("\n")[1:]
    assert line == "tff-partial = tff_partial.cli.main:main"
