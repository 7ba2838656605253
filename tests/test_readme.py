"""The README is short, and its example runs as it stands."""

import pathlib
import re
import runpy

import pytest

README = (pathlib.Path(__file__).parent.parent / "README.md").read_text()


def test_it_stays_short():
    assert README.count("\n") <= 125
    # The tables of algorithms are as long as there are algorithms.
    prose = [line for line in README.splitlines() if not line.startswith("|")]
    assert len(" ".join(prose).split()) <= 400


@pytest.mark.usefixtures("keep_runtime")
def test_the_example_with_an_own_model_runs_and_learns(tmp_path, capsys, monkeypatch):
    (example,) = re.findall(r"```python\n(.*?)```", README, re.DOTALL)
    assert len([line for line in example.splitlines() if line]) <= 14
    script = tmp_path / "example.py"
    script.write_text(example)
    monkeypatch.chdir(tmp_path)
    runpy.run_path(str(script))
    (accuracy,) = map(float, capsys.readouterr().out.splitlines())
    assert accuracy > 0.6  # of four classes
