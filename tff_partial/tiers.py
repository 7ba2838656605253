"""Tiers of clients: how much of the model each trains, how many clients it has, and which.

A tier is written as

    strong, moderate, weak   the whole model, or what the model says of them
    7                        without the first 7 blocks
    0.3                      the largest part that 0.3 of the whole model's memory is enough for
    1/2                      half of the channels of every layer

For algorithms with sub-models every number is a rate of the channels, so that 0.5 is 1/2. Their
clients may draw a rate anew in every round instead: `1/2:0.2,1/16:0.8` is one half with probability
0.2, else a sixteenth; without probabilities all rates are equally likely; `feddse` is the mixture
of FedDSE's section 7.
"""

from __future__ import annotations

import dataclasses
import fractions
import re
from collections.abc import Iterable, Sequence
from typing import Union

import numpy as np

from tff_partial.core import checks

# EmbracingFL's widths (table 10: 55 % and 80 % of the channels are dropped).
NAMED_RATES = {"strong": 1.0, "moderate": 0.45, "weak": 0.2}
NAMES = tuple(NAMED_RATES)
_RATE = re.compile(r"[0-9]{1,9}/0*[1-9][0-9]{0,8}|[0-9]*\.[0-9]+|1")
_BLOCKS, _MEMORY = re.compile(r"\d+"), re.compile(r"0?\.\d+")
_ENTRY = re.compile(r"(strong|moderate|weak|\d+(?:/\d+)?|0?\.\d+):(\d+)")
# FedDSE, section 7: each of five rates with probability 1/5; 1/16 more, as it is, 1/16 less.
_FEDDSE = {
    "1": (0.0, 0.01, 0.99),
    "1/2": (0.01, 0.98, 0.01),
    "1/4": (0.01, 0.98, 0.01),
    "1/8": (0.01, 0.98, 0.01),
    "1/16": (0.0, 1.0, 0.0),
}


@dataclasses.dataclass(frozen=True)
class Tier:
    """A kind of client.

    Attributes:
      name: How it is written, in flags and in the columns of results.
      kind: `named`; or what its number is: `blocks` that are removed, a share of the whole model's
        `memory`, or a `rate` of the channels.
      value: The number; of a name, its rate of the channels.
      count: How many of the population are of it.
    """

    name: str
    kind: str
    value: float
    count: int = 0

    @property
    def rate(self) -> float:
        """The share of the channels that its clients train.

        Raises:
          ValueError: If it is neither a name nor a rate.
        """
        if self.kind not in ("named", "rate"):
            raise _no_rate(self.name)
        return self.value

    @property
    def is_whole(self) -> bool:
        """Whether its clients train the whole model."""
        return self.name == "strong" or (self.kind, self.value) == ("blocks", 0)


def create(name: str, count: int = 0, are_rates: bool = False) -> Tier:
    """Return the tier that is written so; every number is a rate if `are_rates`.

    Raises:
      ValueError: If no tier is written so.
    """
    if name in NAMED_RATES:
        return Tier(name, "named", NAMED_RATES[name], count)
    if not are_rates and _BLOCKS.fullmatch(name):
        return Tier(name, "blocks", int(name), count)
    if not are_rates and _MEMORY.fullmatch(name):
        return Tier(name, "memory", float(name), count)
    value = float(fractions.Fraction(name)) if _RATE.fullmatch(name) else 0.0
    if 0 < value <= 1:
        return Tier(name, "rate", value, count)
    if are_rates or "/" in name:
        raise _no_rate(name)
    raise ValueError(
        "tier must be strong, moderate, weak, a number of removed blocks or a capacity below 1. "
        f"Received: tier={name!r}{checks.did_you_mean(name, NAMES)}"
    )


def _no_rate(name: str) -> ValueError:
    return ValueError(
        "a tier of sub-models must be strong, moderate, weak or a rate in (0, 1] such as 1/2 or "
        f"0.5. Received: tier={name!r}{checks.did_you_mean(name, NAMES)}"
    )


def as_tiers(tiers: Iterable[Union[str, Tier]], are_rates: bool = False) -> tuple[Tier, ...]:
    """Return tiers that may be given by name."""
    return tuple(create(t, are_rates=are_rates) if isinstance(t, str) else t for t in tiers)


def parse(text: str, are_rates: bool = False) -> tuple[Tier, ...]:
    """Read tiers such as 'strong:16,moderate:16,weak:96', '0:16,7:112' or 'strong:16,0.3:112'.

    Raises:
      ValueError: If it does not read like that, or names a tier twice.
    """
    matches = [_ENTRY.fullmatch(entry) for entry in text.split(",")]
    counts = {match[1]: int(match[2]) for match in matches if match}
    if len(counts) < len(matches):
        wrong = next((e for e, m in zip(text.split(","), matches) if m is None), "")
        meant = checks.did_you_mean(wrong.partition(":")[0], NAMES)
        raise ValueError(
            "tiers must be like strong:16,moderate:16,weak:96, each once; a number of removed "
            "blocks, a capacity below 1 or a rate such as 1/2 may stand for a name. "
            f"Received: tiers={text!r}{meant}"
        )
    return tuple(create(name, count, are_rates) for name, count in counts.items())


def select(tiers: Sequence[Tier], only: str) -> tuple[Tier, ...]:
    """Return the tiers that a text such as 'strong,weak' names; all of them if it is empty.

    Raises:
      ValueError: If it names others, or one of them twice.
    """
    named = {tier.name: tier for tier in tiers}
    names = only.split(",") if only else [*named]
    if not {*names} <= {*named} or len({*names}) < len(names):
        raise ValueError(
            f"only_tiers must be of {sorted(named)}, each once. Received: only_tiers={only}"
            + "".join(checks.did_you_mean(n, named) for n in names if n not in named)
        )
    return tuple(named[name] for name in names)


def scale(tiers: Sequence[Tier], clients: int) -> str:
    """Return the text of tiers in the same proportions for another number of clients."""
    total = sum(tier.count for tier in tiers)
    ends = np.cumsum([tier.count for tier in tiers]) * clients // total
    ends = np.maximum(ends, min(clients, 1))  # somebody trains the first layers
    counts = np.diff(ends, prepend=0)
    return ",".join(f"{tier.name}:{count}" for tier, count in zip(tiers, counts))


def assign(tiers: Sequence[Tier], seed: int) -> np.ndarray:
    """Return the index of every client's tier, uint8 [clients], in random order."""
    counts = [tier.count for tier in tiers]
    in_order = np.repeat(np.arange(len(tiers), dtype=np.uint8), counts)
    return np.random.default_rng([seed, 0x7137]).permutation(in_order)


def parse_drawn(text: str) -> dict[Tier, float]:
    """Read rates that are drawn: tier -> probability; the largest rate comes first.

    Raises:
      ValueError: If the text does not read like 1/2:0.2,1/16:0.8, or a rate is given twice.
    """
    if text == "feddse":
        return _feddse()
    pairs = [entry.partition(":") for entry in text.split(",")]
    drawn = [create(name, are_rates=True) for name, _, _ in pairs]
    shares = [share if colon else "1" for _, colon, share in pairs]
    numbers = [float(s) if re.fullmatch(r"\d*\.?\d+", s) else -1.0 for s in shares]
    is_share = min(numbers) >= 0 and 0 < sum(numbers) < float("inf")
    if not is_share or len({tier.rate for tier in drawn}) < len(drawn):
        raise ValueError(
            "capacities must be feddse or rates, each once, such as 1/4 or 1/2:0.2,1/16:0.8. "
            f"Received: capacities={text!r}"
        )
    shares_of = {tier: number / sum(numbers) for tier, number in zip(drawn, numbers)}
    return dict(sorted(shares_of.items(), key=lambda item: -item[0].rate))


def _feddse() -> dict[Tier, float]:
    shares: dict[fractions.Fraction, float] = {}
    for name, probabilities in _FEDDSE.items():
        for sixteenths, probability in zip((1, 0, -1), probabilities):
            rate = fractions.Fraction(name) + fractions.Fraction(sixteenths, 16)
            shares[rate] = shares.get(rate, 0.0) + probability / len(_FEDDSE)
    rates = sorted((rate for rate, share in shares.items() if share), reverse=True)
    return {create(str(rate), are_rates=True): shares[rate] for rate in rates}


def draw(shares: Sequence[float], seed: int, client: int, round_num: int) -> int:
    """Return the index of the tier that a client draws in a round."""
    generator = np.random.default_rng([seed, 0xCA9, client, round_num])
    return int(generator.choice(len(shares), p=np.array(shares) / sum(shares)))
