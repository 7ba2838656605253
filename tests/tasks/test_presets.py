"""Settings that tasks share."""

from __future__ import annotations

import dataclasses

import pytest

import tasks
from tasks import presets


@pytest.mark.parametrize("create", [presets.fedumf_appendix, presets.feddse])
def test_a_task_says_what_differs_and_what_is_not_stated(create) -> None:
    settings = create("some data", "The depth.", clients=20, clients_per_round=5)
    assert (settings.clients, settings.clients_per_round) == (20, 5)
    assert "some data" in settings.source
    assert "The depth." in settings.source
    plain = create("", "")
    same = dataclasses.replace(plain, source=settings.source, clients=20, clients_per_round=5)
    assert same == settings


def test_the_papers_numbers_reach_the_tasks() -> None:
    cifar10 = tasks.TASKS["cifar10"].papers
    paper = cifar10["embracingfl"]
    assert (paper.clients, paper.clients_per_round, paper.rounds) == (128, 32, 1000)
    assert (paper.learning_rate, paper.momentum) == ("0.4,800:0.04,900:0.004", 0.9)
    assert (cifar10["fedumf"].partition, cifar10["fedumf"].learning_rate) == ("classes:2", "0.05")
    assert (cifar10["feddse"].rounds, cifar10["feddse"].capacities) == (2500, "feddse")
