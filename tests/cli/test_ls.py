"""The list of runs."""

import json
import subprocess
import sys

import pytest

from tests.results.test_listing import make
from tff_partial.cli import ls


@pytest.fixture
def folder(tmp_path):
    """Three runs, one of which is damaged."""
    make(tmp_path / "a", ["1,0.5"], rounds=1)
    make(tmp_path / "b", ["1,0.75"], rounds=2, algo="scaffold")
    make(tmp_path / "c", [], rounds=2)
    make(tmp_path / "d", ["1,much"])
    return tmp_path


def test_the_table(folder, capsys):
    assert ls.main([str(folder)]) == 0
    out, err = capsys.readouterr()
    lines = [line.split() for line in out.splitlines()]
    assert lines == [
        ["run", "state", "rounds", "accuracy", "task", "algorithm"],
        [str(folder / "a"), "finished", "1/1", "0.5000", "mnist", "fedavg"],
        [str(folder / "b"), "stopped", "1/2", "0.7500", "mnist", "scaffold"],
        [str(folder / "c"), "stopped", "0/2", "–", "mnist", "fedavg"],
        [],
        ["3", "runs:", "1", "finished,", "2", "stopped"],
    ]
    (line,) = err.splitlines()
    assert line.startswith(f"warning: left out: {folder / 'd'}")


@pytest.mark.parametrize(
    ("flags", "expected"),
    [
        (["--sort=accuracy"], "bac"),
        (["--sort=algo"], "acb"),
        (["--sort=rounds"], "abc"),
        (["--sort=state"], "abc"),
        (["--state=stopped", "--sort=folder"], "bc"),
        (["--state=running,diverged"], ""),
    ],
)
def test_sorting_and_choosing(flags, expected, folder, capsys):
    assert ls.main([str(folder), "--json", *flags]) == 0
    runs = json.loads(capsys.readouterr().out)
    assert "".join(run["folder"][-1] for run in runs) == expected
    for run in runs:
        assert [*run][:6] == ["folder", "state", "done", "rounds", "accuracy", "task"]


@pytest.mark.parametrize(
    ("flags", "end"),
    [
        (["--sort=acuracy"], "Did you mean accuracy?"),
        (["--state=stoped"], "Did you mean stopped?"),
        (["--jsn"], "Did you mean --json?"),
        (["nowhere"], "Received: nowhere"),
    ],
)
def test_bad_input_is_one_line_and_exit_code_2(flags, end, tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    assert ls.main(flags) == 2
    (line,) = capsys.readouterr().err.splitlines()
    assert line.startswith("error: ")
    assert line.endswith(end)


def test_it_imports_no_tensorflow(folder):
    code = (
        "import sys; from tff_partial.cli import ls; ls.main(sys.argv[1:]); "
        "sys.exit('tensorflow' in sys.modules)"
    )
    subprocess.run([sys.executable, "-c", code, folder], check=True, capture_output=True)
