"""Files of owners: formats, places, errors, and clients made of them."""

from __future__ import annotations

import pathlib

import numpy as np
import pytest

import tasks
from tasks import id_files


def test_numbers_and_texts_are_read_as_named_or_from_the_data_folder(
    tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    np.save(tmp_path / "ids.npy", np.array([3, 1, 3]))
    (tmp_path / "ids.txt").write_text("ann\nbob\nann\n")
    assert id_files.read(str(tmp_path / "ids.npy"), None, 3).tolist() == [3, 1, 3]
    assert id_files.read("ids.txt", str(tmp_path), 3).tolist() == ["ann", "bob", "ann"]
    (tmp_path / "here").mkdir()
    monkeypatch.chdir(tmp_path / "here")
    pathlib.Path("ids.txt").write_text("carl")
    assert id_files.read("ids.txt", str(tmp_path), 1).tolist() == ["carl"]


def test_numbers_are_numbers_in_both_formats(tmp_path: pathlib.Path) -> None:
    (tmp_path / "ids.txt").write_text("10\n-9\n0\n")
    ids = id_files.read("ids.txt", str(tmp_path), 3)
    assert (ids.dtype, ids.tolist()) == (np.int64, [10, -9, 0])
    (tmp_path / "ids.txt").write_text("10\n09\n0\n")
    assert id_files.read("ids.txt", str(tmp_path), 3).tolist() == ["10", "09", "0"]


@pytest.mark.parametrize(
    ("name", "content", "message"),
    [
        ("none.npy", None, "must name an .npy file .* Received: FILE=none.npy .FileNotFound"),
        ("ids.npy", b"", "must name an .npy file .* Received: FILE=ids.npy .EOFError"),
        ("ids.npy", b"nonsense", "must name an .npy file .* Received: FILE=ids.npy .ValueError"),
        ("ids.txt", b"\xff\xfe", "must name an .npy file .* Received: FILE=ids.txt .Unicode"),
        ("ids.txt", b"a\nb\n", "for each of 3 training examples. Received: FILE=ids.txt, shape .2"),
    ],
)
def test_errors_are_one_line(
    tmp_path: pathlib.Path, name: str, content: bytes | None, message: str
) -> None:
    if content is not None:
        (tmp_path / name).write_bytes(content)
    with pytest.raises(ValueError, match=message) as caught:
        id_files.read(name, str(tmp_path), 3)
    assert "\n" not in str(caught.value)


def test_clients_hold_all_examples_of_their_owners_and_results_say_so(
    tmp_path: pathlib.Path,
) -> None:
    task = tasks.TASKS["mnist"]
    assert task.load_embedded is not None
    arrays = task.load_embedded(2)
    labels = arrays.train_y
    np.save(tmp_path / "ids.npy", labels)
    data = tasks.load(task, "embedded", str(tmp_path), "ids:ids.npy,3", 3, seed=2)
    assert data.description == f"{arrays.description}, 9 of 10 owners in ids.npy"
    held = [np.unique(data.client(client)[1]).tolist() for client in range(3)]
    assert len({label for each in held for label in each}) == 9
    assert [data.client_size(i) for i in range(3)] == [np.isin(labels, h).sum() for h in held]
