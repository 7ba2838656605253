"""JSON and CSV files of results."""

import os

import pytest

from tff_partial.results import text_files


def test_only_regular_files_are_read_and_replaced(tmp_path):
    """A pipe would be waited for; /dev/null would become a file, for a user who may do that."""
    os.mkfifo(tmp_path / "pipe")
    os.symlink("/dev/null", tmp_path / "null")
    os.symlink(tmp_path / "none", tmp_path / "dangling")
    (tmp_path / "folder").mkdir()
    before = sorted(path.name for path in tmp_path.iterdir())
    for name in before:
        with pytest.raises(text_files.ResultsError, match=f"must be a regular one.*{name}"):
            text_files.write_text(str(tmp_path / name), "x")
        with pytest.raises(text_files.ResultsError, match=f"must be a regular one.*{name}"):
            text_files.read_json(str(tmp_path / name))
    assert sorted(path.name for path in tmp_path.iterdir()) == before
    text_files.write_json(str(tmp_path / "new"), {"a": 1})
    text_files.write_json(str(tmp_path / "new"), {"a": 2})
    assert text_files.read_json(str(tmp_path / "new")) == {"a": 2}


def test_rows_are_read_as_they_were_written(tmp_path):
    path = str(tmp_path / "table.csv")
    text_files.write_csv(path, ["name", "value"], [{"name": 'a,"b"', "value": 1.5}, {"name": "c"}])
    rows = [{"name": 'a,"b"', "value": "1.5"}, {"name": "c", "value": ""}]
    assert text_files.read_csv(path) == rows
    assert os.listdir(tmp_path) == ["table.csv"]
