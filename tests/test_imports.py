"""Which package may import which: the rule of docs/concepts.md, read from the files."""

import ast
import collections
import pathlib

import pytest

ROOT = pathlib.Path(__file__).parents[1]
FILES = sorted(
    path.relative_to(ROOT)
    for pattern in ("tff_partial/**/*.py", "models/*.py", "tasks/*.py", "run_experiment.py")
    for path in ROOT.glob(pattern)
)

# What each package imports at most of ours, beside itself.
_CORE = {"core"}
_MODEL = _CORE | {"tiers", "layers", "submodels"}
_ALGORITHMS = _MODEL | {"costs", "processes"}
_EXPERIMENTS = _ALGORITHMS | {"algorithms", "results", "runtime", "system"}
ALLOWED = {
    "models": set(),
    "tasks": {"core", "tiers"},
    "system": set(),
    "core": set(),
    "tiers": _CORE,
    "layers": _CORE | {"tiers"},
    "submodels": _CORE | {"tiers"},
    "costs": _MODEL,
    "processes": _MODEL | {"costs"},
    "algorithms": _ALGORITHMS,
    "experiments": _EXPERIMENTS | {"models", "tasks"},
    "recipes": _EXPERIMENTS | {"experiments", "similarity", "models", "tasks", "report"},
    "similarity": _EXPERIMENTS | {"experiments"},
    "results": {"system", "tiers"},
    "report": {"system", "tiers", "results"},
    "runtime": {"core.lazy", "core.types", "system"},  # types are names for annotations
    "cli": _EXPERIMENTS | {"experiments", "recipes", "similarity", "report"},
    "tff_partial": set(),
}
# Files that have to import more, and why.
EXCEPTIONS = {
    # They only start a command, so that `python -m tff_partial.<name>` works.
    "tff_partial/activations.py": {"cli"},
    "tff_partial/claims.py": {"cli"},
    "tff_partial/check_gpu.py": {"cli"},
    "tff_partial/compare.py": {"cli"},
    "tff_partial/ls.py": {"cli"},
    "tff_partial/plots.py": {"cli"},
    "tff_partial/costs/__main__.py": {"cli"},
    "tff_partial/report/__main__.py": {"cli"},
    "tff_partial/similarity/__main__.py": {"cli"},
    "tff_partial/runtime/worker.py": {"cli"},
    "run_experiment.py": {"cli"},
}


def package_of(path):
    """The package of a file: a folder of tff_partial, one of its modules, `models` or `tasks`."""
    parts = path.with_suffix("").parts
    if parts[0] != "tff_partial":
        return parts[0]
    return parts[1] if len(parts) > 2 or parts[1] in ALLOWED else "tff_partial"


def imports_of(path):
    """Dotted names of ours that a file imports anywhere, without the leading `tff_partial.`."""
    names = set()
    for node in ast.walk(ast.parse((ROOT / path).read_text())):
        if isinstance(node, ast.Import):
            names |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom):
            parents = path.parts[: -node.level] if node.level else ()
            module = ".".join([*parents, *([node.module] if node.module else [])])
            names |= {f"{module}.{alias.name}" for alias in node.names}
    ours = [name for name in names if name.split(".")[0] in ("tff_partial", "models", "tasks")]
    return {name.removeprefix("tff_partial.") for name in ours}


def _within(name, package):
    return name == package or name.startswith(f"{package}.")


@pytest.mark.parametrize("path", map(str, FILES))
def test_a_file_imports_what_its_package_may(path):
    package = package_of(pathlib.Path(path))
    allowed = {package, *ALLOWED.get(package, ()), *EXCEPTIONS.get(path, ())}
    names = imports_of(pathlib.Path(path))
    assert [name for name in names if not any(_within(name, each) for each in allowed)] == []


def test_imports_are_seen_wherever_they_stand(tmp_path):
    code = """
import tasks.task
from tff_partial import costs, tiers
import numpy
if TYPE_CHECKING:
    from tff_partial.core.model import Cut
def late():
    import models
"""
    (tmp_path / "module.py").write_text(code)
    expected = {"tasks.task", "costs", "tiers", "core.model.Cut", "models"}
    assert imports_of(tmp_path / "module.py") == expected
    assert "tasks.task.Settings" in imports_of(pathlib.Path("tasks/presets.py"))


def test_exceptions_are_needed():
    for path, names in EXCEPTIONS.items():
        found = imports_of(pathlib.Path(path))
        assert all(any(_within(name, each) for name in found) for each in names), path


def test_packages_do_not_import_each_other_in_a_circle():
    edges = collections.defaultdict(set)
    for path in FILES:
        if str(path) not in EXCEPTIONS:
            names = {name.split(".")[0] for name in imports_of(path)}
            edges[package_of(path)] |= names - {package_of(path)}
    done = set()
    while remaining := [p for p in edges if p not in done and not (edges[p] & {*edges}) - done]:
        done |= set(remaining)
    assert set(edges) == done
