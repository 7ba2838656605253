"""SVHN."""

from __future__ import annotations

import pathlib

import tasks
from tests.tasks import declared
from tests.tasks.prepared import prepare


class TestTask(declared.Images):
    name, shape = "svhn", (32, 32, 3)


def test_svhn_has_its_extra_images(tmp_path: pathlib.Path) -> None:
    splits = {"train": slice(0, 4), "test": slice(4, 7), "extra": slice(7, 16)}
    x, y = prepare(tmp_path, "svhn_cropped", "3.0.0", splits)
    data = tasks.load(tasks.TASKS["svhn"], "auto", str(tmp_path), partition="iid", clients=1)
    assert data.description == "real: svhn_cropped 3.0.0, train+extra"
    got = {image.tobytes(): label for image, label in zip(*data.client(0))}
    train = [*range(4), *range(7, 16)]
    assert got == {x[i].tobytes(): y[i] for i in train}
    assert {image.tobytes() for image in data.test_x} == {image.tobytes() for image in x[4:7]}
