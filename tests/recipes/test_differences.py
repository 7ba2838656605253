"""What differs from the paper's settings, in words."""

import dataclasses

import pytest

from tff_partial.experiments import config
from tff_partial.experiments.bundled import tasks
from tff_partial.recipes import differences


def paper(**changes):
    return config.create(task="cifar10", algo="embracing", preset="paper", **changes)


def changed(experiment, **changes):
    settings = dataclasses.replace(experiment.settings, **changes)
    return dataclasses.replace(experiment, settings=settings)


@pytest.mark.parametrize(
    ("changes", "expected"),
    [
        ({}, ""),
        ({"eval_every": 1, "tiers": "strong:128"}, ""),  # neither changes what is learnt
        ({"rounds": 25, "clients": 40, "tiers": ""}, "25 of 1,000 rounds, 40 of 128 clients"),
        (
            {"clients_per_round": 8, "local_steps": 50},
            "8 of 32 a round, 50 local steps (paper: 10)",
        ),
        ({"width": 0.25}, "width 0.25 (paper: 1)"),
        ({"clip_norm": 1.0}, "clip norm 1 (paper: none)"),
        ({"train_examples": 12_800}, "12,800 training examples"),
        ({"learning_rate": "0.4,80:0.04"}, ""),  # the same rate, its changes moved
        ({"learning_rate": "0.1"}, "learning rate 0.1 (paper: 0.4)"),
    ],
)
def test_every_difference_is_named(changes, expected):
    assert differences.text([(paper(), changed(paper(), **changes))]) == expected


def test_another_task_stands_in_for_the_papers():
    own = dataclasses.replace(paper(), task=tasks.TASKS["svhn"])
    assert differences.text([(paper(), own), (paper(), paper())]) == "svhn in place of cifar10"


def test_rows_with_different_values_are_listed_or_their_range_is_given():
    def pairs(*rounds):
        return [(paper(rounds=of), changed(paper(), rounds=own)) for of, own in rounds]

    two = pairs((1000, 40), (909, 30), (50, 50))
    assert differences.text(two) == "30/40 of 909/1,000 rounds"
    four = pairs((1000, 40), (900, 30), (800, 20), (700, 10))
    assert differences.text(four) == "10 to 40 of 700 to 1,000 rounds"
