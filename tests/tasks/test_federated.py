"""Loading a task's data and dealing them out."""

from __future__ import annotations

import pathlib

import pytest

import tasks
from tests.tasks.declared import load_embedded


def test_auto_says_in_one_line_that_it_uses_embedded_data(tmp_path: pathlib.Path) -> None:
    lines: list[str] = []
    data = tasks.load(tasks.TASKS["mnist"], "auto", str(tmp_path), log=lines.append)
    assert not data.real
    assert len(lines) == 1
    assert "--data=tfds" in lines[0]
    assert "--data_dir=<folder where mnist is prepared>" in lines[0]
    assert "\n" not in lines[0]


def test_load_checks_its_arguments_before_it_reads() -> None:
    with pytest.raises(ValueError, match="data must be one of .* Received: data='other'"):
        tasks.load(tasks.TASKS["mnist"], "other")
    with pytest.raises(ValueError, match="Received: partition=nope"):
        tasks.load(tasks.TASKS["mnist"], "tfds", "nowhere", partition="nope")
    with pytest.raises(IndexError, match="Received: client=50"):
        load_embedded("mnist").client(50)


def test_a_part_of_the_training_examples_can_be_dealt_out():
    task = tasks.TASKS["mnist"]
    some = tasks.load(task, "embedded", clients=5, partition="iid", train_examples=60)
    assert sum(some.client_size(i) for i in range(5)) == 60
    assert some.description.endswith(", 60 training examples")
    whole = tasks.load(task, "embedded", clients=5, partition="iid")
    assert len(some.test_y) == len(whole.test_y)
    with pytest.raises(ValueError, match="train_examples must be from 1 to .* Received: .*=0"):
        tasks.load(task, "embedded", train_examples=0)
