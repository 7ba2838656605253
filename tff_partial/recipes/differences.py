"""What differs between the paper's settings and ours, in one line."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from typing import Any

from tff_partial.core import schedules
from tff_partial.experiments.config import Experiment

# Setting -> what is counted: `25 of 400 rounds`.
_COUNTS = {
    "rounds": "rounds",
    "clients": "clients",
    "clients_per_round": "a round",
    "local_steps": "local steps",
    "local_epochs": "local epochs",
}
_MOST = 3  # values that are named one by one
# Settings that follow from others, or do not change what is learnt.
_LEFT_OUT = (
    *("tiers", "only_tiers", "capacities", "eval_every", "evaluate", "source", "target_accuracy"),
)


def text(pairs: Sequence[tuple[Experiment, Experiment]]) -> str:
    """Return what differs between experiments of the paper and ours; empty if nothing does.

    `25 of 400 rounds, 16 of 128 clients, width 0.25 (paper: 1)`. Where rows have different values,
    all are named, or their range: `40 of 909/1,000 rounds`.
    """
    papers, ours = [_values(paper) for paper, _ in pairs], [_values(own) for _, own in pairs]
    names = dict.fromkeys(name for each in (*ours, *papers) for name in each)
    parts = []
    for name in sorted(names, key=lambda n: [*_COUNTS, n].index(n)):
        both = [(paper.get(name), own.get(name)) for paper, own in zip(papers, ours)]
        differing = [pair for pair in both if pair[0] != pair[1]]
        if differing:
            parts.append(_part(name, differing))
    return ", ".join(parts)


def _values(experiment: Experiment) -> dict[str, Any]:
    settings = dataclasses.asdict(experiment.settings)
    settings = {name: value for name, value in settings.items() if name not in _LEFT_OUT}
    # Of a schedule its first rate: changes and warm-up move with the rounds.
    rate = schedules.create(settings["learning_rate"]).initial
    others = {
        "task": experiment.task.name,
        "normalization": experiment.normalization,
        "augment": experiment.augment,
    }
    return {**settings, **others, "learning_rate": rate}


def _part(name: str, pairs: Sequence[tuple[Any, Any]]) -> str:
    """Return what is said of a setting: (the paper's value, ours) of each row."""
    paper, ours = (_joined(column) for column in zip(*pairs))
    if name == "task":
        return f"{ours} in place of {paper}"
    if name == "train_examples" and paper == "none":
        return f"{ours} training examples"
    if name in _COUNTS and all(own is not None and own <= (of or 0) for of, own in pairs):
        return f"{ours} of {paper} {_COUNTS[name]}"
    if name in _COUNTS and ours != "none":
        return f"{ours} {_COUNTS[name]} (paper: {paper})"
    return f"{name.replace('_', ' ')} {ours} (paper: {paper})"


def _joined(values: Sequence[Any]) -> str:
    """Return the different values; of many numbers the smallest and the largest."""
    different = list(dict.fromkeys(values))
    if all(isinstance(value, (int, float)) for value in different):
        different.sort()
        if len(different) > _MOST:
            return f"{_shown(different[0])} to {_shown(different[-1])}"
    return "/".join(map(_shown, different))


def _shown(value: Any) -> str:
    if value in (None, ""):
        return "none"
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, float):
        return f"{value:g}"
    return f"{value:,}" if isinstance(value, int) else str(value)
