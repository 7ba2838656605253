"""The package of tasks."""

from __future__ import annotations

import pathlib
import subprocess
import sys

import tasks


def test_importing_tasks_imports_nothing_heavy() -> None:
    code = (
        "import sys, tasks; heavy = {'tensorflow', 'tensorflow_datasets', 'tensorflow_federated', "
        "'sklearn', 'keras', 'scipy'} & set(sys.modules); sys.exit(str(heavy) if heavy else 0)"
    )
    folder = pathlib.Path(tasks.__file__).parent.parent
    subprocess.run([sys.executable, "-c", code], check=True, cwd=folder)
