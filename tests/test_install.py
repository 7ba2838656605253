"""What is installed is what is pinned, and `make run` creates an environment for it."""

import importlib.util
import pathlib
import re
import shutil
import subprocess
import sys
from importlib import metadata

import pytest
from packaging import requirements

ROOT = pathlib.Path(__file__).parent.parent
PIN = re.compile(
    r"(?P<name>[\w.-]+)==(?P<version>\S+)(?: ; python_version (?P<op>\S+) \"(?P<python>\S+)\")?$"
)


def pins(name="requirements.txt"):
    for line in (ROOT / name).read_text().splitlines():
        if line.startswith("#"):
            continue
        pin = PIN.match(line)
        assert pin, f"every line must be a pin. Received: {line}"
        if pin["op"]:
            wanted = tuple(map(int, pin["python"].split(".")))
            newer = sys.version_info[:2] >= wanted
            if newer != (pin["op"] == ">="):
                continue
        yield pin["name"], pin["version"]


def installed(name):
    """The version that is installed; Ray brings packages of its own along once it is imported."""
    path = [folder for folder in sys.path if "thirdparty_files" not in folder]
    (found, *_) = metadata.distributions(name=name, path=path)
    return found.version


@pytest.mark.parametrize(("name", "version"), pins())
def test_installed_version_is_the_pinned_one(name, version):
    assert installed(name) == version


@pytest.mark.parametrize(("name", "version"), pins("requirements-ray.txt"))
def test_what_ray_needs_is_the_pinned_version(name, version):
    if importlib.util.find_spec("ray") is None:
        pytest.skip("Ray is not installed: make ray")
    assert installed(name) == version


def test_what_ray_needs_does_not_replace_a_pin():
    assert not {name.lower() for name, _ in pins()} & {
        name.lower() for name, _ in pins("requirements-ray.txt")
    }


def test_no_index_address_in_requirements():
    for name in (*map(str, ROOT.glob("requirements*.txt")), "Makefile", "setup.cfg"):
        text = (ROOT / name).read_text()
        assert not re.search(r"index-url|find-links|https?://\S*/simple", text)


class TestMakeEnvironment:
    """`make run` with programs on the PATH that only write down how they are called."""

    @pytest.fixture
    def folder(self, tmp_path):
        for name in ("Makefile", "requirements.txt", "setup.cfg", "pyproject.toml"):
            shutil.copy(ROOT / name, tmp_path)
        (tmp_path / "bin").mkdir()
        for tool in ("sh", "rm", "touch", "mkdir", "cp", "chmod"):
            (tmp_path / "bin" / tool).symlink_to(shutil.which(tool))
        return tmp_path

    def program(self, folder, name, body):
        path = folder / "bin" / name
        log = folder / "calls.txt"
        path.write_text(f'#!/bin/sh\necho "{name} $*" >> {log}\n{body}\n')
        path.chmod(0o755)
        return path

    def new_environment(self, folder):
        """A command that creates .venv with a Python that does nothing."""
        made = self.program(folder, "made_python", '[ "$1" != --version ] || echo Python 3.11.9')
        return f"mkdir -p .venv/bin && cp {made} .venv/bin/python"

    def newer_python(self, folder):
        body = '[ "$1" = --version ] && echo Python 3.13.0 && exit 0\nexit 1'
        self.program(folder, "python3", body)

    def make(self, folder):
        done = subprocess.run(
            [shutil.which("make"), "run", "ARGS=--list"],
            cwd=folder,
            env={"PATH": str(folder / "bin"), "HOME": str(folder)},
            capture_output=True,
            text=True,
            check=False,
        )
        calls = (folder / "calls.txt").read_text().splitlines()
        return done, [call for call in calls if " -c " not in call and "--version" not in call]

    def test_uv_supplies_the_python_where_only_a_newer_one_is_there(self, folder):
        self.newer_python(folder)
        body = f'[ "$1" = venv ] || exit 0\n{self.new_environment(folder)}'
        self.program(folder, "uv", body)
        done, calls = self.make(folder)
        assert done.returncode == 0, done.stderr
        assert calls[0] == "uv venv --quiet --python 3.11 --seed .venv"
        assert "Installing into .venv with Python 3.11.9" in done.stdout
        assert "--no-deps" in calls[1]
        assert calls[1].endswith("-r requirements.txt")
        assert calls[2].endswith("-e .")
        assert calls[3:] == ["made_python run_experiment.py --list"]

    def test_a_python_that_will_do_is_used_without_uv(self, folder):
        self.program(folder, "uv", "exit 1")
        body = f'[ "$2" = venv ] || exit 0\n{self.new_environment(folder)}'
        self.program(folder, "python3.10", body)
        done, calls = self.make(folder)
        assert done.returncode == 0, done.stderr
        assert calls[0] == "python3.10 -m venv .venv"
        assert not any(call.startswith("uv") for call in calls)

    def test_without_either_it_says_what_was_expected(self, folder):
        self.newer_python(folder)
        done, calls = self.make(folder)
        assert done.returncode == 2
        assert "error: expected Python 3.9, 3.10 or 3.11" in done.stderr
        assert "Received: Python 3.13.0" in done.stderr
        assert calls == []
        assert not (folder / ".venv").exists()

    def test_an_environment_that_was_not_finished_is_removed(self, folder):
        body = f'[ "$2" = venv ] || exit 0\n{self.new_environment(folder)}\nexit 1'
        self.program(folder, "python3.11", body)
        done, _ = self.make(folder)
        assert done.returncode == 2
        assert not (folder / ".venv").exists()


def test_overrides_agree_with_the_pins_and_the_page():
    text = (ROOT / "requirements-override.txt").read_text()
    overrides = [line for line in text.splitlines() if not line.startswith("#")]
    installed = {name.lower().replace("_", "-"): version for name, version in pins()}
    for override in map(requirements.Requirement, overrides):
        assert override.specifier.contains(installed[override.name]), override
    assert "\n".join(overrides) in (ROOT / "docs" / "install.md").read_text()
