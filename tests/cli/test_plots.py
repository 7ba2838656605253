"""The command that draws several runs."""

import pytest

from tests.results.run_folders import make_run
from tff_partial.cli import plots


@pytest.mark.parametrize("steps", [4, None])
def test_a_picture_of_two_runs(tmp_path, steps):
    folders = [make_run(tmp_path / name, steps) for name in "ab"]
    output = tmp_path / "out.png"
    assert plots.main([*folders, "--columns=loss,test_accuracy", f"--output={output}"]) == 0
    assert output.read_bytes().startswith(b"\x89PNG")
    assert [p.name for p in tmp_path.iterdir() if "_temp" in p.name] == []


def test_errors_are_one_line_and_write_nothing(tmp_path, capsys):
    output = tmp_path / "out.png"
    for arguments in ([str(tmp_path)], [make_run(tmp_path / "a"), "--columns=nothing"]):
        assert plots.main([*arguments, f"--output={output}"]) == 2
        assert len(capsys.readouterr().err.splitlines()) == 1
    assert not output.exists()
