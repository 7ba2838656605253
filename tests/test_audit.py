"""`make audit` with a pip-audit that says what the test wants."""

import importlib.util
import json
import pathlib
import re
import sys

import pytest

ROOT = pathlib.Path(__file__).parent.parent
CANARY = {"name": "jinja2", "version": "2.4.1", "vulns": [{"id": "PYSEC-2014-8"}]}
KNOWN = {"id": "PYSEC-2023-102", "aliases": ["CVE-2023-25399"], "fix_versions": ["1.10.0"]}
NEW = {"id": "PYSEC-2099-1", "aliases": ["CVE-2099-1"], "fix_versions": ["2", "3"]}
CLEAN = {"name": "six", "version": "1.0", "vulns": []}
STUB = f"""#!{sys.executable}
import os, sys
print(open(os.path.join(os.environ["STUB"], os.path.basename(sys.argv[-1]) + ".json")).read())
"""


def load_audit():
    spec = importlib.util.spec_from_file_location("audit", ROOT / ".ci" / "audit.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.fixture
def audit(tmp_path, monkeypatch, capsys):
    """(What is said of the canary, of the pins, of Ray's) -> exit code, stdout, stderr."""
    (tmp_path / "pip-audit").write_text(STUB)
    (tmp_path / "pip-audit").chmod(0o755)
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.setenv("STUB", str(tmp_path))

    def run(canary, pins, of_ray=(CLEAN,)):
        said = {"canary": canary, "requirements": pins, "requirements-ray": of_ray}
        for name, packages in said.items():
            answer = json.dumps({"dependencies": packages}) if packages is not None else "Oops"
            (tmp_path / f"{name}.txt.json").write_text(answer)
        code = load_audit().main()
        return (code, *capsys.readouterr())

    return run


def scipy(*vulnerabilities):
    return {"name": "scipy", "version": "1.9.3", "vulns": list(vulnerabilities)}


def test_clean_and_accepted(audit):
    code, out, err = audit([CANARY], [CLEAN, scipy(KNOWN)])
    assert (code, err) == (0, "")
    assert out.splitlines() == [
        "requirements.txt: 2 packages; 1 vulnerabilities, all accepted in SECURITY.md",
        "requirements-ray.txt: 1 packages; 0 vulnerabilities, all accepted in SECURITY.md",
    ]


def test_what_ray_needs_is_audited_too(audit):
    ray = {"name": "ray", "version": "2.0", "vulns": [NEW]}
    code, _, err = audit([CANARY], [CLEAN], [ray])
    assert code == 1
    assert "SECURITY.md does not accept: ray 2.0: PYSEC-2099-1" in err


def test_an_alias_is_accepted(audit):
    alias = {"id": "GHSA-aaaa-bbbb-cccc", "aliases": ["CVE-2023-25399"], "fix_versions": []}
    assert audit([CANARY], [scipy(alias)])[0] == 0


@pytest.mark.parametrize(
    "canary",
    [
        [{"name": "jinja2", "skip_reason": "could not be audited"}],
        [{"name": "jinja2", "version": "2.4.1", "vulns": []}],
        [],
    ],
)
def test_a_database_that_was_not_reached_is_an_error(audit, canary):
    code, _, err = audit(canary, [CLEAN])
    assert code == 1
    assert err.startswith("error: pip-audit did not reach its database")
    assert err.count("\n") == 1


@pytest.mark.parametrize(
    ("pins", "message"),
    [
        ([CLEAN, scipy(KNOWN, NEW)], "scipy 1.9.3: PYSEC-2099-1 (fixed in 2, 3)"),
        ([CLEAN, {"name": "keras", "skip_reason": "not found"}], "were not audited: keras"),
        ([], "were not audited: all"),
        (None, "pip-audit failed: Oops"),
    ],
)
def test_everything_else_is_an_error_in_one_line(audit, pins, message):
    code, out, err = audit([CANARY], pins)
    assert (code, out) == (1, "")
    assert message in err
    assert err.count("\n") == 1


def test_pip_audit_is_missing(monkeypatch, capsys, tmp_path):
    monkeypatch.setenv("PATH", str(tmp_path))
    assert load_audit().main() == 1
    assert capsys.readouterr().err.startswith("error: pip-audit could not be started")


def test_accepted_packages_are_the_pinned_ones():
    """A pin that is raised takes its row with it."""
    texts = [(ROOT / name).read_text() for name in load_audit().REQUIREMENTS]
    pins = [line.partition(" ;")[0] for text in texts for line in text.splitlines()]
    accepted = (ROOT / "SECURITY.md").read_text().partition("## Accepted vulnerabilities")[2]
    names = re.findall(r"^\| ([\w-]+) (\d\S*) \|", accepted, re.MULTILINE)
    assert len(names) >= 4
    for name, version in names:
        assert f"{name}=={version}" in pins
