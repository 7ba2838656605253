"""A run's folder."""

import json

import pytest

from tff_partial.results import folder as results


def test_a_folder_is_new_or_of_the_same_run_whatever_a_killed_run_left(tmp_path):
    settings, execution = {"task": "mnist"}, {}
    (tmp_path / "config.json_temp").write_text('{"sett')
    results.prepare_folder(str(tmp_path), settings, execution).close()
    assert json.loads((tmp_path / "config.json").read_text())["settings"] == settings
    for content in ("[1]", '{"settings": 3}'):
        (tmp_path / "config.json").write_text(content)
        with pytest.raises(results.ResultsError, match="config.json must "):
            results.prepare_folder(str(tmp_path), settings, execution)
    other = tmp_path / "other"
    other.mkdir()
    (other / "notes.txt").write_text("mine")
    with pytest.raises(results.ResultsError, match="holds other files"):
        results.prepare_folder(str(other), settings, execution)
    assert [path.name for path in other.iterdir()] == ["notes.txt"]
