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
# Settings that follow from others, or do not change what is learnt.
_LEFT_OUT = ("tiers", "only_tiers", "capacities", "eval_every", "source", "target_accuracy")


def text(pairs: Sequence[tuple[Experiment, Experiment]]) -> str:
    """Return what differs between experiments of the paper and ours; empty if nothing does.

    `25 of 400 rounds, 16 of 128 clients, width 0.25 (paper: 1)`. Where rows have different values,
    all are named: `40 of 1000/909 rounds`.
    """
    papers, ours = [_values(paper) for paper, _ in pairs], [_values(own) for _, own in pairs]
    names = dict.fromkeys(name for each in (*ours, *papers) for name in each)
    parts = []
    for name in sorted(names, key=lambda n: [*_COUNTS, n].index(n)):
        both = [(paper.get(name), own.get(name)) for paper, own in zip(papers, ours)]
        if any(paper != own for paper, own in both):
            paper_text, own_text = (_joined(column) for column in zip(*both))
            parts.append(_part(name, paper_text, own_text))
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


def _joined(values: Sequence[Any]) -> str:
    return "/".join(dict.fromkeys(map(_shown, values)))


def _shown(value: Any) -> str:
    if value in (None, ""):
        return "none"
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, float):
        return f"{value:g}"
    return f"{value:,}" if isinstance(value, int) else str(value)


def _part(name: str, paper: str, ours: str) -> str:
    if name == "task":
        return f"{ours} in place of {paper}"
    if name == "train_examples" and paper == "none":
        return f"{ours} training examples"
    if name in _COUNTS and paper != "none" and ours != "none":
        return f"{ours} of {paper} {_COUNTS[name]}"
    return f"{name.replace('_', ' ')} {ours} (paper: {paper})"
