"""Documents: links lead somewhere, files exist, commands parse, examples run."""

import argparse
import importlib
import pathlib
import re
import runpy
import shlex
import shutil
import subprocess
import sys

import pytest
from absl import flags as absl_flags

from tff_partial.algorithms import registry
from tff_partial.cli import run as run_command
from tff_partial.experiments import config, flags

ROOT = pathlib.Path(__file__).parent.parent
# Remarks are parts of docs/results.md.
PAGES = [
    path for pattern in ("*.md", "docs/*.md", "docs/algorithms/*.md") for path in ROOT.glob(pattern)
]
NAMES = sorted(str(path.relative_to(ROOT)) for path in PAGES)
EXTENDING = "docs/extending.md"
FAMILIES = {path.stem: path.read_text() for path in (ROOT / "docs" / "algorithms").glob("*.md")}
FENCE = re.compile(r"^ *```(\w*)\n(.*?)^ *```$", re.MULTILINE | re.DOTALL)
LINK = re.compile(r"\[[^\]]*\]\(([^)\s]+)\)")
FOLDERS = "benchmarks|deploy|docs|examples|models|recipes|tasks|tests|tff_partial"
COMMAND = re.compile(r"python\S* (?:-m )?(run_experiment\.py|tff_partial\S*)(.*)")
PLACEHOLDER = re.compile(r"<[^>]+>|\$\w+|\.\.\.")


def prose(name):
    """The page without its code blocks."""
    return FENCE.sub("", (ROOT / name).read_text())


def code_blocks(name, language):
    return [body for kind, body in FENCE.findall((ROOT / name).read_text()) if kind == language]


def anchors(name):
    """What GitHub calls the headings of a page."""
    found = []
    for heading in re.findall(r"^#+ (.*)$", prose(name), re.MULTILINE):
        anchor = re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-")
        found.append(f"{anchor}-{found.count(anchor)}" if anchor in found else anchor)
    return found


@pytest.mark.parametrize("name", NAMES)
def test_links_lead_somewhere(name):
    for target in LINK.findall(prose(name)):
        if re.match(r"https?:", target):
            continue
        path, _, anchor = target.partition("#")
        linked = (ROOT / name).parent / path if path else ROOT / name
        assert linked.exists(), target
        if anchor:
            assert anchor in anchors(linked), f"{target}, of {anchors(linked)}"


@pytest.mark.parametrize("name", [name for name in NAMES if name != "CHANGELOG.md"])
def test_files_that_a_page_names_exist(name):
    for path in re.findall(rf"`((?:{FOLDERS})/[\w./-]*)`", prose(name)):
        assert (ROOT / path).exists(), path


def test_pages_that_other_files_name_exist():
    listed = subprocess.run(
        ["git", "ls-files", "--", ":!docs/runs", ":!CHANGELOG.md"],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=False,
    )
    if listed.returncode:
        pytest.skip("not a git repository")
    for name in listed.stdout.splitlines():
        if name.endswith(".png") or not (ROOT / name).is_file():
            continue
        for page in re.findall(r"\bdocs/[\w/-]+\.(?:md|html|svg|png)\b", (ROOT / name).read_text()):
            assert (ROOT / page).exists(), f"{name} names {page}"


@pytest.mark.parametrize("name", NAMES)
def test_a_page_names_no_path_of_a_machine(name):
    text = (ROOT / name).read_text()
    assert not re.search(r"(?<![\w.>])/(?:work|tmp|root|home|opt)/|\.\./shared|papers/\w", text)


def commands(name):
    """(Program, arguments) of each command of this project in a page."""
    blocks = "\n".join(code_blocks(name, "")).replace("\\\n", " ")
    for line in [*blocks.splitlines(), *re.findall(r"`([^`\n]+)`", prose(name))]:
        line = PLACEHOLDER.sub("<>", line)
        for arguments in re.findall(r'make run ARGS="([^"]*)"', line):
            yield "run_experiment.py", arguments.split()
        for program, rest in COMMAND.findall(line):
            if "<>" not in program:
                # `;` within a word is part of a sweep.
                yield program, shlex.split(re.split(r";(?:\s|$)", rest)[0], comments=True)


def names_of(arguments):
    return [re.sub(r"^--|=.*", "", word) for word in arguments if word.startswith("--")]


class Parsed(Exception):
    """Carries the parser of a command, in place of what the command does."""


def parser_of(program, monkeypatch):
    def parse_args(parser, arguments=None, namespace=None):
        raise Parsed(parser)

    monkeypatch.setattr(argparse.ArgumentParser, "parse_args", parse_args)
    module = program.replace("runtime.worker", "worker").rpartition(".")[2]
    command = importlib.import_module(f"tff_partial.cli.{module}")
    with pytest.raises(Parsed) as parsed:
        command.main([])
    return parsed.value.args[0]


@pytest.mark.parametrize(
    "name", [name for name in NAMES if name not in ("CHANGELOG.md", EXTENDING)]
)
def test_commands_have_the_flags_that_they_are_given(name, monkeypatch):
    for program, arguments in commands(name):
        if program == "run_experiment.py":
            check_run(arguments)
            continue
        known = parser_of(program, monkeypatch)._option_string_actions
        assert {f"--{flag}" for flag in names_of(arguments)} <= set(known), (program, arguments)
        monkeypatch.undo()


def check_run(arguments):
    """Creates the experiment, unless values are left open."""
    values = absl_flags.FlagValues()
    run_command.define_flags(values)
    values(["run_experiment.py", *(word for word in arguments if "<>" not in word)])
    assert {name.replace("[no]", "") for name in names_of(arguments)} <= {
        *values,
        *(f"no{flag}" for flag in values),
    }
    if not any("<>" in word for word in arguments) and not (values.recipe or values.describe):
        given = run_command.settings_of(values)
        config.create(**{key: value for key, value in given.items() if key in flags.DECIDING})


@pytest.mark.parametrize("algo", registry.ALGORITHMS)
def test_every_algorithm_stands_in_the_readme_and_in_one_page_with_its_flags(algo):
    pages = [text for text in FAMILIES.values() if f", `{algo}` |" in text]
    assert len(pages) == 1
    assert f"`{algo}`" in (ROOT / "README.md").read_text()
    assert f"--algo={algo}" in pages[0]
    for flag, owner in flags.OWNERS.items():
        general = flag.replace(f"{algo}_", "<algo>_", 1)
        forms = [f"--{prefix}{form}" for form in (flag, general) for prefix in ("", "no")]
        assert owner != algo or any(f"`{form}`" in pages[0] for form in forms), flag


def test_the_readme_cites_papers_as_their_pages_do():
    titles = re.findall(r"\*([^*]+)\*, (\d{4})", (ROOT / "README.md").read_text())
    assert len(titles) == 21
    for title, year in titles:
        assert any(f"*{title}*, {year}" in page for page in FAMILIES.values()), title


@pytest.mark.parametrize("name", ["docs/getting-started.md", "docs/own.md", EXTENDING])
def test_examples_in_python_run_and_learn(name, tmp_path, monkeypatch, capsys):
    blocks = [block for block in code_blocks(name, "python") if not block.startswith("# ")]
    script = tmp_path / "example.py"
    script.write_text("\n\n".join(blocks))
    monkeypatch.chdir(tmp_path)
    runpy.run_path(str(script))
    numbers = [float(x) for x in re.findall(r"^0\.\d+$", capsys.readouterr().out, re.MULTILINE)]
    if name == EXTENDING:
        assert len(numbers) == 24
        assert min(numbers[9], numbers[10], numbers[23]) > 0.8
        assert numbers[13] > numbers[11]  # the functional model


def apply(block, root):
    """Changes a file as a diff says."""
    head, *lines = block.splitlines(keepends=True)
    path = root / head[2:].strip()
    old = "".join(line[1:] or "\n" for line in lines if not line.startswith("+"))
    new = "".join(line[1:] or "\n" for line in lines if not line.startswith("-"))
    text = path.read_text()
    assert text.count(old) == 1, block
    path.write_text(text.replace(old, new))


DRIVER = """
import importlib, sys
for line in sys.stdin:
    program, *arguments = line.split()
    name = "run" if program == "run_experiment.py" else program.rpartition(".")[2]
    code = importlib.import_module(f"tff_partial.cli.{name}").main(arguments)
    assert code == 0, line
"""


@pytest.mark.slow
def test_what_extending_adds_works(tmp_path):
    for name in ("tff_partial", "models", "tasks", "recipes"):
        shutil.copytree(ROOT / name, tmp_path / name)
    for block in code_blocks(EXTENDING, "python"):
        if block.startswith("# "):
            head, _, text = block.partition("\n")
            (tmp_path / head[2:]).write_text(text)
    for block in code_blocks(EXTENDING, "diff"):
        apply(block, tmp_path)
    lines = [shlex.join([program, *rest]) for program, rest in commands(EXTENDING) if rest]
    done = subprocess.run(
        [sys.executable, "-W", "ignore", "-c", DRIVER],
        cwd=tmp_path,
        input="\n".join(lines),
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    assert len(lines) >= 6
    assert "fedbabu_head" in done.stdout
    assert "test_certainty" in (tmp_path / "results" / "certainty" / "metrics.csv").read_text()
