"""Tests mirror the packages: `tests/costs/test_cuts.py` tests `tff_partial/costs/cuts.py`."""

import pathlib

ROOT = pathlib.Path(__file__).parent.parent
# A few lines that start a command of `cli`.
SHIMS = {
    "test_activations.py",
    "test_check_gpu.py",
    "test_claims.py",
    "test_compare.py",
    "test_ls.py",
    "test_plots.py",
    "runtime/test_worker.py",
}
# Test files of more than one module.
TOPICS = {
    "algorithms/test_aggregations.py",
    "cli/test_own_folder.py",
    "cli/test_run_faults.py",
    "models/test_models.py",
    "report/test_report_browser.py",
    "runtime/in_process/test_stock_algorithms.py",
    "runtime/ray/test_faults.py",
    "runtime/test_runtimes.py",
    "runtime/workers/test_stunnel.py",
    "tasks/test_tasks.py",
}


def expected():
    """The test file of each module, from `tests`."""
    folders = {"tff_partial": ROOT / "tff_partial", "models": ROOT, "tasks": ROOT}
    paths = (
        path.relative_to(start)
        for package, start in folders.items()
        for path in (ROOT / package).rglob("[!_]*.py")
    )
    return {path.with_name(f"test_{path.name}").as_posix() for path in paths} - SHIMS


def test_every_module_has_a_test_file_of_its_name():
    missing = {test for test in expected() if not (ROOT / "tests" / test).exists()}
    assert missing == set()


def test_every_test_file_of_a_package_is_that_of_a_module():
    packages = {pathlib.Path(test).parts[0] for test in expected()}
    found = {
        path.relative_to(ROOT / "tests").as_posix()
        for package in packages
        for path in (ROOT / "tests" / package).rglob("test_*.py")
    }
    assert found - expected() == TOPICS
