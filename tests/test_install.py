"""What is installed is what is pinned."""

import pathlib
import re
import sys
from importlib import metadata

import pytest

ROOT = pathlib.Path(__file__).parent.parent
PIN = re.compile(
    r"(?P<name>[\w.-]+)==(?P<version>\S+)(?: ; python_version (?P<op>\S+) \"(?P<python>\S+)\")?$"
)


def pins():
    for line in (ROOT / "requirements.txt").read_text().splitlines():
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


@pytest.mark.parametrize(("name", "version"), pins())
def test_installed_version_is_the_pinned_one(name, version):
    assert metadata.version(name) == version


def test_no_index_address_in_requirements():
    for name in ("requirements.txt", "requirements-gpu.txt", "Makefile", "setup.cfg"):
        text = (ROOT / name).read_text()
        assert not re.search(r"index-url|find-links|https?://\S*/simple", text)
