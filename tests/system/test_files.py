"""Files that appear complete or not at all."""

import io
import os

import numpy as np
import pytest

from tff_partial.system import files


def test_a_file_is_created_and_replaced(tmp_path):
    for content in (b"first", b"2"):
        files.write(str(tmp_path / "a"), content)
        assert (tmp_path / "a").read_bytes() == content
    assert os.listdir(tmp_path) == ["a"]


@pytest.mark.parametrize("name", ["fsync", "replace"])
def test_a_write_that_fails_leaves_the_old_file_and_no_other(name, tmp_path, monkeypatch):
    files.write(str(tmp_path / "a"), b"old")

    def fail(*unused):
        raise OSError("No space left on device")

    monkeypatch.setattr(os, name, fail)
    with pytest.raises(OSError, match="No space left"):
        files.write(str(tmp_path / "a"), b"new")
    assert os.listdir(tmp_path) == ["a"]
    assert (tmp_path / "a").read_bytes() == b"old"


def test_content_is_synced_before_it_gets_its_name_unless_told_otherwise(tmp_path, monkeypatch):
    done, replace = [], os.replace
    monkeypatch.setattr(os, "fsync", lambda descriptor: done.append("sync"))
    monkeypatch.setattr(os, "replace", lambda a, b: (done.append("rename"), replace(a, b)))
    files.write(str(tmp_path / "a"), b"a")
    files.write(str(tmp_path / "b"), b"b", synced=False)
    files.sync(str(tmp_path))
    assert done == ["sync", "rename", "rename", "sync"]


def test_arrays_are_those_of_an_npz_file():
    content = files.npz({"a": [1, 2], "b/c": np.float32(0.5)})
    with np.load(io.BytesIO(content)) as arrays:
        assert {name: arrays[name].tolist() for name in arrays} == {"a": [1, 2], "b/c": 0.5}


def test_a_file_that_does_not_exist_is_removed_already(tmp_path):
    (tmp_path / "a").write_text("")
    files.remove(str(tmp_path / "a"))
    files.remove(str(tmp_path / "a"))
    assert os.listdir(tmp_path) == []
