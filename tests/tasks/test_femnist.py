"""FEMNIST."""

from __future__ import annotations

import pathlib

import numpy as np
import pytest

import tasks
from tasks import femnist, real
from tests.tasks import declared


class TestTask(declared.Images):
    name, shape = "femnist", (28, 28, 1)


def test_femnist_is_assembled_by_writer() -> None:
    import tensorflow_federated as tff

    pixels = np.ones((3, 28, 28), np.float32)
    pixels[:, 0, 0], pixels[:, 0, 1] = 0.0, 0.5
    writers = {
        "f1": {"label": np.array([1, 2, 61], np.int32), "pixels": pixels},
        "f0": {"label": np.array([7], np.int32), "pixels": pixels[:1]},
    }
    client_data = tff.simulation.datasets.TestClientData(writers)
    arrays = femnist.assemble(client_data, client_data)
    assert arrays.train_x.shape == (4, 28, 28, 1)
    assert arrays.train_x.dtype == np.uint8
    assert arrays.train_x[0, 0, :3, 0].tolist() == [255, 128, 0]
    assert arrays.writers is not None
    names = np.array(client_data.client_ids)[arrays.writers]
    by_writer = {name: set(arrays.train_y[names == name]) for name in names}
    assert by_writer == {"f0": {7}, "f1": {1, 2, 61}}
    assert arrays.description == "real: Federated EMNIST, 2 writers"


def test_a_broken_femnist_download_leaves_no_file(
    tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    import tensorflow_federated as tff

    def half_a_download(only_digits: bool, cache_dir: str) -> None:
        pathlib.Path(cache_dir, "emnist_all.sqlite").write_text("half")
        raise EOFError("connection lost")

    monkeypatch.setattr(real, "check_reachable", lambda name, url: None)
    monkeypatch.setattr(tff.simulation.datasets.emnist, "load_data", half_a_download)
    with pytest.raises(tasks.DataError, match="femnist .* EOFError: connection lost"):
        femnist.load_real(str(tmp_path))
    assert not femnist.is_prepared(str(tmp_path))
