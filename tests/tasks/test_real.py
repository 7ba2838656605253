"""Real data from a prepared folder, and without a network."""

from __future__ import annotations

import pathlib
import socket
import time
from typing import Any

import pytest

import tasks
from tasks import real
from tests.tasks.prepared import prepare

SPLITS = {"train": slice(0, 8), "test": slice(8, 12)}


def test_a_prepared_folder_is_read_and_not_written(tmp_path: pathlib.Path) -> None:
    x, y = prepare(tmp_path, "mnist", "3.0.1", SPLITS)
    before = sorted(path for path in tmp_path.rglob("*"))
    lines: list[str] = []
    data = tasks.load(
        tasks.TASKS["mnist"], "auto", str(tmp_path), partition="iid:4", clients=2, log=lines.append
    )
    assert lines == []
    assert data.real
    assert data.description == "real: mnist 3.0.1"
    assert data.test_x.shape == (4, 28, 28, 1)
    got = {
        image.tobytes(): label for client in (0, 1) for image, label in zip(*data.client(client))
    }
    assert got == {image.tobytes(): label for image, label in zip(x[:8], y[:8])}
    assert sorted(path for path in tmp_path.rglob("*")) == before


def test_the_newest_prepared_version_counts(tmp_path: pathlib.Path) -> None:
    for version in ("3.0.9", "3.0.10", "incomplete.3.1.0"):
        (tmp_path / "mnist" / version).mkdir(parents=True)
        (tmp_path / "mnist" / version / "dataset_info.json").touch()
    assert real.find_prepared("mnist", str(tmp_path)) == tmp_path / "mnist" / "3.0.10"
    assert real.find_prepared("cifar10", str(tmp_path)) is None


def test_a_broken_prepared_folder_is_one_line(tmp_path: pathlib.Path) -> None:
    (tmp_path / "mnist" / "3.0.1").mkdir(parents=True)
    (tmp_path / "mnist" / "3.0.1" / "dataset_info.json").write_text("{")
    with pytest.raises(tasks.DataError, match="mnist could not be read or downloaded") as caught:
        tasks.load(tasks.TASKS["mnist"], "tfds", str(tmp_path))
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize("name", ["imdb", "emnist", "femnist"])
def test_no_network_is_one_line_at_once(
    name: str, tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def no_network(*_: Any, **__: Any) -> None:
        raise socket.gaierror("Name or service not known")

    monkeypatch.setattr(socket, "getaddrinfo", no_network)
    for variable in ("http_proxy", "https_proxy", "HTTP_PROXY", "HTTPS_PROXY", "all_proxy"):
        monkeypatch.delenv(variable, raising=False)
    start = time.perf_counter()
    with pytest.raises(tasks.DataError, match="does not answer .* or --data=embedded") as caught:
        tasks.load(tasks.TASKS[name], "tfds", str(tmp_path / "new"))
    assert "\n" not in str(caught.value)
    assert time.perf_counter() - start < 5
    assert not (tmp_path / "new").exists()
