"""Curves of several runs in one picture."""

import json

import pytest

from tff_partial.cli import plots
from tff_partial.results import figures


def make_run(folder, local_steps=4):
    folder.mkdir()
    settings = {"local_steps": local_steps, "data": "embedded: toy"}
    (folder / "config.json").write_text(json.dumps({"settings": settings}))
    (folder / "metrics.csv").write_text("round,test_accuracy,loss\n1,,2.0\n2,0.5,1.0\n")
    return str(folder)


def test_points_are_by_local_steps_where_there_is_a_value(tmp_path):
    run = figures.read(make_run(tmp_path / "a"))
    assert figures.points(run, "test_accuracy", by_steps=True) == [(8.0, 0.5)]
    assert figures.points(run, "loss", by_steps=False) == [(1.0, 2.0), (2.0, 1.0)]


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
