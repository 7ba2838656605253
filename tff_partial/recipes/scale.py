"""How a recipe is shrunk: `scaled` turns the paper's settings into smaller ones.

1 is the paper. Everything follows from the number of clients and of rounds, so that the user may
give either instead.
"""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Mapping
from typing import Any

from tff_partial import tiers
from tff_partial.core import schedules
from tff_partial.experiments.bundled import tasks

RULE = (
    "rounds x scale; clients x sqrt(scale), at least 8, and clients per round and tiers in the "
    "same proportion, at least 2 a round (never more than the paper's); the learning rate's "
    "changes, warm-up and decay stretch with the rounds; evaluations at least as often as in the "
    "paper and about 50; local steps or epochs, batch size, rate and model as in the paper; all "
    "training examples are dealt out, so that a client has more, except where the division gives "
    "clients a size or writers (iid:300, classes:2,500, natural:2): they keep it, and fewer "
    "examples are used in all. On embedded data at most 32 clients, no fixed sizes of clients, and "
    "Dirichlet divisions filled up."
)
MIN_CLIENTS, MIN_COHORT = 8, 2
EVALUATIONS = 50
EMBEDDED_CLIENTS = 32


def check(scale: float) -> None:
    """Raise a ValueError unless it is in (0, 1]."""
    if not 0 < scale <= 1:
        raise ValueError(f"scale must be in (0, 1]. Received: scale={scale:g}")


def scaled(
    paper: tasks.Settings, scale: float, given: Mapping[str, Any], is_embedded: bool = False
) -> tasks.Settings:
    """Return the settings of a run by `RULE`.

    Args:
      paper: The settings at the paper's scale.
      scale: In (0, 1].
      given: Fields that the user gives; what depends on them follows them.
      is_embedded: Whether the data are embedded, of which there are few.

    Raises:
      ValueError: If what is given does not fit.
    """
    check(scale)
    clients = given.get("clients") or _clients(paper.clients, scale, is_embedded)
    rounds = given.get("rounds") or max(1, round(paper.rounds * scale))
    changes: dict[str, Any] = {"clients": clients, "rounds": rounds}
    if paper.tiers and clients != paper.clients:
        changes["tiers"] = tiers.scale(tiers.parse(paper.tiers, clients=paper.clients), clients)
    if is_embedded:
        changes["partition"] = _for_few_examples(paper.partition)
    if rounds != paper.rounds:
        changes["learning_rate"] = stretched(paper.learning_rate, rounds / paper.rounds)
        changes["eval_every"] = min(paper.eval_every, max(1, rounds // EVALUATIONS))
    shrunk = {**changes, **given}
    for one, other, none in (
        ("local_steps", "local_epochs", None),
        ("local_epochs", "local_steps", None),
        ("tiers", "capacities", ""),
        ("capacities", "tiers", ""),
    ):
        if one in given and other not in given:
            shrunk[other] = none
    if "clients_per_round" not in given:
        shrunk["clients_per_round"] = _cohort(paper, dataclasses.replace(paper, **_loose(shrunk)))
    return dataclasses.replace(paper, **shrunk)


def _clients(clients: int, scale: float, is_embedded: bool) -> int:
    shrunk = max(min(clients, MIN_CLIENTS), round(clients * math.sqrt(scale)))
    return min(shrunk, EMBEDDED_CLIENTS) if is_embedded else shrunk


def _loose(changes: Mapping[str, Any]) -> dict[str, Any]:
    """Return the changes with a cohort that cannot be too large, for the checks of `Settings`."""
    return {**changes, "clients_per_round": 1}


def _cohort(paper: tasks.Settings, shrunk: tasks.Settings) -> int:
    """Return the clients of a round: all who take part if so in the paper, else in proportion."""
    before, after = paper.participants, shrunk.participants
    if paper.clients_per_round == before:
        return after
    wanted = round(paper.clients_per_round * shrunk.clients / paper.clients)
    return min(after, max(wanted, min(MIN_COHORT, paper.clients_per_round)))


def stretched(learning_rate: str, factor: float) -> str:
    """Return the schedule's text over `factor` times as many rounds."""
    schedule = schedules.create(learning_rate)
    text = f"{schedule.initial:.8g}"
    if schedule.decay != 1:
        text += f"*{schedule.decay ** (1 / factor):.8g}"
    if schedule.warm_up:
        text += f"~{schedule.warm_up * factor:.4g}"
    return "".join([text, *(f",{at * factor:.6g}:{to:.8g}" for at, to in schedule.changes)])


def _for_few_examples(partition: str) -> str:
    """Return the same partition without sizes of clients, filled up where that is possible."""
    name, arguments = tasks.partition.parse(partition)
    if name == "iid":
        return name
    if name == "classes":
        return f"classes:{arguments[0]}"
    return f"dirichlet:{arguments[0]:g},fill" if name == "dirichlet" else partition
