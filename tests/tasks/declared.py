"""Tests that all tasks share."""

from __future__ import annotations

from typing import Any

import numpy as np

import tasks


def load_embedded(name: str, **arguments: Any) -> tasks.FederatedData:
    return tasks.load(tasks.TASKS[name], "embedded", **arguments)


class Task:
    """What holds for every task; a test file's subclass names it."""

    name: str

    def test_is_complete(self) -> None:
        task = tasks.TASKS[self.name]
        assert task.name == self.name
        assert task.papers[task.default_paper].source
        for paper, settings in task.papers.items():
            assert settings.source, paper
            assert settings.rounds >= 100

    def test_embedded_data_are_small_labelled_and_repeatable(self) -> None:
        data, same = load_embedded(self.name, seed=3), load_embedded(self.name, seed=3)
        other = load_embedded(self.name, seed=4)
        x, y = data.client(0)
        assert data.num_clients == tasks.TASKS[self.name].demo.clients
        assert len(x) == len(y) == data.client_size(0) > 0
        assert x.dtype == data.x_dtype == data.test_x.dtype
        assert x.shape[1:] == data.input_shape
        assert y.dtype == data.test_y.dtype == np.int32
        assert set(np.unique(data.test_y)) <= set(range(data.num_classes))
        assert np.array_equal(x, same.client(0)[0])
        assert not np.array_equal(data.test_x, other.test_x)
        assert data.real == (tasks.TASKS[self.name].generate is not None)
        assert data.description.startswith("generated: " if data.real else "embedded: ")


class Images(Task):
    """What holds for images, of this shape."""

    shape: tuple[int, int, int]

    def test_embedded_images_have_the_shape_of_the_real_ones(self) -> None:
        data = load_embedded(self.name)
        total = sum(data.client_size(client) for client in range(data.num_clients))
        assert data.input_shape == self.shape == tasks.TASKS[self.name].input_shape
        assert data.x_dtype == np.uint8
        assert total > 3900
        prepared = tasks.TASKS[self.name].preprocess(data.test_x[:50])
        assert prepared.dtype == "float32"
        assert 0.1 < np.std(prepared) < 3
