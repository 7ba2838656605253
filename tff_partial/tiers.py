"""Tiers of clients: what each leaves out of the model, how many clients it has, and which.

A tier is called `strong` (the whole model), `moderate` or `weak` (what the model says of them), by
a number of removed blocks such as `7`, or by a capacity below 1 such as `0.3`, from which the
smallest cut that fits is derived (`costs.cut_of`). For algorithms with sub-models a number is a
rate of the channels instead, `1/2` or `0.5` (`capacities`).
"""

from __future__ import annotations

import dataclasses
import re

import numpy as np

NAMES = ("strong", "moderate", "weak")
_TIER = re.compile(r"(strong|moderate|weak|\d+(?:/\d+)?|0?\.\d+):(\d+)")


@dataclasses.dataclass(frozen=True)
class Tier:
    """A kind of client and how many of the population are of it."""

    name: str
    count: int


def parse(text: str) -> tuple[Tier, ...]:
    """Reads tiers such as 'strong:16,moderate:16,weak:96', '0:16,7:112' or 'strong:16,0.3:112'.

    Raises:
      ValueError: If it does not read like that, or names a tier twice.
    """
    found = [_TIER.fullmatch(entry) for entry in text.split(",")]
    tiers = [Tier(match.group(1), int(match.group(2))) for match in found if match]
    if len(tiers) < len(found) or len({tier.name for tier in tiers}) < len(tiers):
        raise ValueError(
            "tiers must be like strong:16,moderate:16,weak:96, each once; a number of removed "
            "blocks, a capacity below 1 or a rate such as 1/2 may stand for a name. "
            f"Received: tiers={text!r}"
        )
    return tuple(tiers)


def scale(tiers: tuple[Tier, ...], clients: int) -> str:
    """The text of tiers in the same proportions for another number of clients."""
    total = sum(tier.count for tier in tiers)
    ends = np.cumsum([tier.count for tier in tiers]) * clients // total
    ends = np.maximum(ends, min(clients, 1))  # somebody trains the first layers
    counts = np.diff(ends, prepend=0)
    return ",".join(f"{tier.name}:{count}" for tier, count in zip(tiers, counts))


def assign(tiers: tuple[Tier, ...], seed: int) -> np.ndarray:
    """The tier's index of every client, uint8 [clients], in random order."""
    counts = [tier.count for tier in tiers]
    in_order = np.repeat(np.arange(len(tiers), dtype=np.uint8), counts)
    return np.random.default_rng([seed, 0x7137]).permutation(in_order)
