"""Documents: links lead somewhere, files exist, commands parse, examples run."""

import argparse
import contextlib
import importlib
import io
import pathlib
import re
import shlex
import subprocess
import sys

import pytest
from absl import flags

ROOT = pathlib.Path(__file__).parent.parent
PAGES = sorted(
    path
    for path in (*ROOT.glob("*.md"), *(ROOT / "docs").rglob("*.md"), *ROOT.glob("*/*/*/*.md"))
    if not {".venv", "runs", "results"} & set(path.relative_to(ROOT).parts)
)
NAMES = [str(path.relative_to(ROOT)) for path in PAGES]
FENCE = re.compile(r"^ *```(\w*)\n(.*?)^ *```$", re.MULTILINE | re.DOTALL)
LINK = re.compile(r"!?\[[^\]]*\]\(([^)\s]+)\)")
FOLDERS = ("benchmarks", "deploy", "docs", "examples", "models", "recipes", "tasks", "tests")
OURS = re.compile(rf"^(?:{'|'.join((*FOLDERS, 'tff_partial'))})/[\w./-]*$")


def prose(page):
    """The page without its code blocks."""
    return FENCE.sub("", page.read_text())


def anchors(page):
    """What GitHub calls the headings of a page."""
    names = []
    for heading in re.findall(r"^#+ (.*)$", prose(page), re.MULTILINE):
        text = LINK.sub("", heading.lower()) or heading.lower()
        name = re.sub(r"[^\w\- ]", "", text).strip().replace(" ", "-")
        names.append(f"{name}-{names.count(name)}" if name in names else name)
    return names


@pytest.mark.parametrize("name", NAMES)
def test_links_lead_somewhere(name):
    page = ROOT / name
    for target in LINK.findall(prose(page)):
        if re.match(r"https?:", target):
            continue
        path, _, anchor = target.partition("#")
        linked = page.parent / path if path else page
        assert linked.exists(), target
        if anchor:
            assert anchor in anchors(linked), f"{target}: {anchors(linked)}"


@pytest.mark.parametrize("name", NAMES)
def test_files_that_are_named_exist(name):
    for code in re.findall(r"`([^`\n]+)`", prose(ROOT / name)):
        if OURS.match(code) and name != "CHANGELOG.md":
            assert (ROOT / code).exists(), code


def test_pages_that_code_names_exist():
    done = subprocess.run(
        ["git", "ls-files", "--", ":!docs/runs", ":!CHANGELOG.md"],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=False,
    )
    if done.returncode:
        pytest.skip("not a git repository")
    for name in done.stdout.splitlines():
        path = ROOT / name
        if path.suffix in (".png", ".svg") or not path.is_file():
            continue
        for page in re.findall(r"\bdocs/[\w/-]+\.(?:md|html)\b", path.read_text()):
            assert (ROOT / page).exists(), f"{name} names {page}"


@pytest.mark.parametrize("name", NAMES)
def test_no_path_of_a_machine(name):
    text = (ROOT / name).read_text()
    assert not re.findall(r"(?<![\w.<>])/(?:work|tmp|root|home|opt)/\S*|\.\./shared|papers/\w+", text)


def commands(page):
    """The commands of this project in a page: its code blocks and code in its text."""
    text = page.read_text()
    blocks = [body.replace("\\\n", " ") for language, body in FENCE.findall(text) if not language]
    lines = [line for block in blocks for line in block.splitlines()]
    for line in lines + re.findall(r"`([^`\n]+)`", prose(page)):
        made = re.search(r'make run ARGS="([^"]*)"', line)
        if made:
            yield "run_experiment.py", made[1].split()
        called = re.search(r"python\S* (?:-m )?(run_experiment\.py|tff_partial\S*)(.*)", line)
        script = re.search(r"(?:^|\s)tff-partial (\w+)(.*)", line)
        if called or script:
            words = shlex.split((called or script)[2].partition(";")[0], comments=True)
            yield (called[1] if called else f"tff_partial.{script[1]}"), words


class Parsed(Exception):
    """Carries the parser of a command, in place of running it."""


def known_flags(program):
    """Name -> whether a value follows, of the flags of a command."""
    if program == "run_experiment.py":
        return run_flags()
    return parser_flags(program)


def test_the_page_of_flags_is_up_to_date():
    from tff_partial.cli import flag_reference

    text = (ROOT / "docs" / "flags.md").read_text()
    assert text == flag_reference.text(), "run make docs"
