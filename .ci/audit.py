"""Fails if a pinned package has a known vulnerability that SECURITY.md does not accept.

    python .ci/audit.py

Needs `pip-audit` on the PATH. When that cannot reach its database it says "No known
vulnerabilities found" and exits with 0; so a package known to be vulnerable is asked for first.
"""

from __future__ import annotations

import json
import pathlib
import re
import subprocess
import sys
import tempfile
from typing import Any

ROOT = pathlib.Path(__file__).parent.parent
REQUIREMENTS = ("requirements.txt", "requirements-ray.txt")
CANARY = "jinja2==2.4.1"
OPTIONS = ("--no-deps", "--disable-pip", "--progress-spinner=off", "--format=json")
ID = re.compile(r"\b(?:CVE-\d{4}-\d+|PYSEC-\d{4}-\d+|GHSA(?:-[0-9a-z]{4}){3})\b")


class AuditError(Exception):
    """The audit could not be done, or found something."""


def accepted_ids(security: str) -> set[str]:
    """The ids in the tables of SECURITY.md's section on accepted vulnerabilities."""
    section = security.partition("## Accepted vulnerabilities")[2].partition("\n## ")[0]
    rows = [line for line in section.splitlines() if line.startswith("|")]
    return set(ID.findall("\n".join(rows)))


def audit(requirements: pathlib.Path) -> list[dict[str, Any]]:
    """What pip-audit says of each requirement."""
    command = ["pip-audit", *OPTIONS, f"--requirement={requirements}"]
    try:
        done = subprocess.run(command, capture_output=True, text=True, check=False)
    except OSError as error:
        raise AuditError(f"pip-audit could not be started: {error}") from None
    try:
        return json.loads(done.stdout)["dependencies"]
    except (ValueError, KeyError, TypeError):
        last = (done.stderr.strip() or done.stdout.strip() or "no output").splitlines()[-1]
        raise AuditError(f"pip-audit failed: {last}") from None


def check_database() -> None:
    """Raises an AuditError unless an old package's vulnerabilities are known."""
    with tempfile.TemporaryDirectory() as folder:
        canary = pathlib.Path(folder, "canary.txt")
        canary.write_text(CANARY + "\n")
        if not any(package.get("vulns") for package in audit(canary)):
            raise AuditError(
                f"pip-audit did not reach its database: {CANARY} is vulnerable and was not reported"
            )


def check_requirements(requirements: pathlib.Path, accepted: set[str]) -> str:
    """Returns a line on what was found; raises an AuditError if that is not acceptable."""
    packages = audit(requirements)
    skipped = [package["name"] for package in packages if "skip_reason" in package]
    if skipped or not packages:
        raise AuditError(f"packages that were not audited: {', '.join(skipped) or 'all'}")
    found = [
        (package, vulnerability, {vulnerability["id"], *vulnerability.get("aliases", ())})
        for package in packages
        for vulnerability in package["vulns"]
    ]
    new = [
        f"{package['name']} {package['version']}: {vulnerability['id']} "
        f"(fixed in {', '.join(vulnerability.get('fix_versions', ())) or 'no version'})"
        for package, vulnerability, ids in found
        if not ids & accepted
    ]
    if new:
        raise AuditError(f"vulnerabilities that SECURITY.md does not accept: {'; '.join(new)}")
    counts = f"{len(packages)} packages; {len(found)} vulnerabilities"
    return f"{requirements.name}: {counts}, all accepted in SECURITY.md"


def main() -> int:
    try:
        check_database()
        accepted = accepted_ids((ROOT / "SECURITY.md").read_text())
        for name in REQUIREMENTS:
            print(check_requirements(ROOT / name, accepted))
    except AuditError as error:
        print(f"error: {error}", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
