"""Settings and tasks are checked."""

from __future__ import annotations

import dataclasses
from typing import Any

import pytest

import tasks
from tasks import embedded, images
from tasks.task import Settings, Task

SETTINGS = Settings(
    model="softmax",
    partition="iid",
    clients=32,
    clients_per_round=8,
    rounds=3,
    local_steps=2,
    batch_size=4,
    learning_rate="0.1",
)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"clients_per_round": 64}, r"be at most clients \(32\). Received: clients_per_round=64"),
        ({"rounds": -1}, "rounds must be at least 1. Received: rounds=-1"),
        ({"batch_size": 0}, "batch_size must be at least 1. Received: batch_size=0"),
        ({"width": 0.0}, r"width must be in \(0, 1\]. Received: width=0.0"),
        ({"momentum": 1.0}, r"momentum must be in \[0, 1\). Received: momentum=1.0"),
        ({"weight_decay": -1.0}, "weight_decay must not be negative. Received: weight_decay=-1.0"),
        (
            {"weight_decay_on": "biases"},
            "weight_decay_on must be kernels or all. Received: weight_decay_on=biases",
        ),
        ({"target_accuracy": 80.0}, "target_accuracy must be in"),
        ({"local_epochs": 1}, "exactly one .* Received: local_steps=2, local_epochs=1"),
        ({"local_steps": None}, "exactly one .* Received: local_steps=None, local_epochs=None"),
        ({"local_steps": 0}, "must be at least 1. Received: local_steps=0"),
        ({"partition": "half"}, "partition must be one of .* Received: partition=half"),
        ({"learning_rate": "-0.1"}, "learning_rate must read like .* Received: learning_rate=-0.1"),
        ({"learning_rate": "0.1,9:0.2,5:1"}, "rounds rising"),
        ({"learning_rate": "0.1*"}, "learning_rate must read like"),
        ({"tiers": "strong"}, "tiers must be like strong:16"),
        ({"tiers": "strong:16,weak:8"}, r"tiers must add up to clients \(32\)"),
        ({"tiers": "weak:16,weak:16"}, "tiers must be like strong:16"),
    ],
)
def test_settings_are_checked(change: dict[str, Any], message: str) -> None:
    with pytest.raises(ValueError, match=message) as caught:
        dataclasses.replace(SETTINGS, **change)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize("rate", ["0.1", "1", "1e-3", ".5", "0.4,800:0.04,900:0.004", "0.1*0.998"])
def test_learning_rates_read(rate: str) -> None:
    assert dataclasses.replace(SETTINGS, learning_rate=rate).learning_rate == rate


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"loss": "hinge"}, "loss must be one of"),
        ({"loss": "binary"}, "num_classes must be 2 for a binary loss. Received: num_classes=10"),
        ({"default_paper": "none"}, "default_paper must be one of"),
        ({"papers": {"fedpmt": SETTINGS}, "default_paper": "fedpmt"}, "say where their numbers"),
        ({"input_shape": ()}, "input_shape must have positive sizes"),
        ({"load_real": None}, "mnist must have load_embedded, load_real and is_prepared"),
    ],
)
def test_tasks_are_checked(change: dict[str, Any], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        dataclasses.replace(tasks.TASKS["mnist"], **change)


def test_a_task_of_ones_own() -> None:
    arrays = embedded.digits(0)
    task = Task(
        name="own",
        description="",
        num_classes=10,
        input_shape=(28, 28, 1),
        loss="categorical",
        demo=SETTINGS,
        papers={"none": dataclasses.replace(SETTINGS, source="none")},
        default_paper="none",
        preprocess=images.standardise((0.0,), (1.0,)),
        load_embedded=lambda seed: arrays,
        load_real=lambda data_dir: arrays,
        is_prepared=lambda data_dir: True,
    )
    assert tasks.load(task).num_clients == 32
