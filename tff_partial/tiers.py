"""Tiers of clients: how much of the model each trains, how many clients it has, and which.

A tier is written as a budget, which means the same for every algorithm: the most that it can train
within

    memory:0.25              a quarter of the memory that training the whole model takes
    compute:0.25             a quarter of the operations of its local step
    params:0.25              a quarter of its parameters
    rate:0.25                the memory of the model with a quarter of the channels
    blocks:3                 the memory of the model without its first 3 blocks

or in short, where a number depends on the algorithm:

    strong, moderate, weak   the whole model, or what the model says of them
    7                        without the first 7 blocks
    0.3                      the largest part that 0.3 of the whole model's memory is enough for
    1/2                      half of the channels of every layer

For algorithms with sub-models every number without a word is a rate of the channels, so that 0.5 is
1/2. How many clients a tier has follows after a colon, as a number or as a share of all:
`strong:4,memory:0.25:12` or `strong:25%,memory:0.25:75%`.

Clients of sub-models may draw a rate anew in every round instead: `1/2:0.2,1/16:0.8` is one half
with probability 0.2, else a sixteenth; without probabilities all rates are equally likely; `feddse`
is the mixture of FedDSE's section 7.
"""

from __future__ import annotations

import dataclasses
import fractions
import itertools
import math
import re
from collections.abc import Iterable, Sequence
from typing import Optional, Union

import numpy as np

from tff_partial.core import checks

# EmbracingFL's widths (table 10: 55 % and 80 % of the channels are dropped).
NAMED_RATES = {"strong": 1.0, "moderate": 0.45, "weak": 0.2}
NAMES = tuple(NAMED_RATES)
_BUDGETS = ("memory", "compute", "params", "rate", "blocks")
_RATE = re.compile(r"[0-9]{1,9}/0*[1-9][0-9]{0,8}|[0-9]*\.[0-9]+|1")
_BLOCKS, _MEMORY = re.compile(r"\d+"), re.compile(r"0?\.\d+")
_BUDGET = re.compile(
    r"(memory|compute|params|rate):([0-9]{1,9}/0*[1-9][0-9]{0,8}|0?\.[0-9]{1,9}|1(?:\.0{1,9})?)"
    r"|(blocks):([0-9]{1,9})"
)
_SHORT = r"strong|moderate|weak|\d+(?:/\d+)?|0?\.\d+"
_SHARE = r"\d{1,3}(?:\.\d{1,9})?%"
_ENTRY = re.compile(rf"({_SHORT}|[a-z]+:[\d./]+):(\d+|{_SHARE})")
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
      name: How it is written in flags, without its clients.
      kind: `named`; or what its number is: `blocks` that are removed, a share of the whole model's
        `memory`, operations (`compute`) or parameters (`params`), or a `rate` of the channels.
      value: The number; of a name, its rate of the channels.
      count: How many of the population are of it.
      is_budget: Whether it is written with its kind, and means the same for every algorithm.
    """

    name: str
    kind: str
    value: float
    count: int = 0
    is_budget: bool = False

    @property
    def label(self) -> str:
        """Its name in the columns of results: `memory_0.25` for `memory:0.25`."""
        return self.name.replace(":", "_").replace("/", "-") if self.is_budget else self.name

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
        if self.kind == "blocks":
            return self.value == 0
        return self.name == "strong" or (self.is_budget and self.value == 1)


def create(name: str, count: int = 0, are_rates: bool = False) -> Tier:
    """Return the tier that is written so; every number without a word is a rate if `are_rates`.

    Raises:
      ValueError: If no tier is written so.
    """
    if ":" in name:
        return _budget(name, count)
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
        "tier must be strong, moderate, weak, a number of removed blocks, a capacity below 1 or a "
        f"budget such as memory:0.25. Received: tier={name!r}{_meant(name)}"
    )


def _budget(name: str, count: int) -> Tier:
    match = _BUDGET.fullmatch(name)
    kind, text = [part for part in match.groups() if part] if match else ("", "0")
    value = float(fractions.Fraction(text))
    if kind == "blocks":
        return Tier(f"blocks:{int(text)}", kind, value, count, is_budget=True)
    if not 0 < value <= 1:
        raise ValueError(
            "a budget must be memory, compute, params or rate with a share in (0, 1], such as "
            "memory:0.25, or blocks with how many are removed, such as blocks:3. "
            f"Received: tier={name!r}{_meant(name)}"
        )
    # memory:.250 is memory:0.25.
    text = text if "/" in text else f"{value:.9f}".rstrip("0").rstrip(".")
    return Tier(f"{kind}:{text}", kind, value, count, is_budget=True)


def _no_rate(name: str) -> ValueError:
    return ValueError(
        "a tier of sub-models must be strong, moderate, weak, a rate in (0, 1] such as 1/2 or "
        f"0.5, or a budget such as memory:0.25. Received: tier={name!r}{_meant(name)}"
    )


def _meant(entry: str) -> str:
    """Return the end of an error's line: what a misspelt name may mean."""
    return checks.did_you_mean(entry.partition(":")[0], (*NAMES, *_BUDGETS))


def as_tiers(tiers: Iterable[Union[str, Tier]], are_rates: bool = False) -> tuple[Tier, ...]:
    """Return tiers that may be given by name."""
    return tuple(create(t, are_rates=are_rates) if isinstance(t, str) else t for t in tiers)


def parse(text: str, are_rates: bool = False, clients: Optional[int] = None) -> tuple[Tier, ...]:
    """Read tiers such as 'strong:16,weak:96', '0:16,7:112' or 'strong:4,memory:0.25:87.5%'.

    Args:
      text: Each tier with its number of clients, or with its share of them.
      are_rates: Whether numbers without a word are rates.
      clients: The population; if it is not given, tiers with shares have no clients.

    Raises:
      ValueError: If it does not read like that, names a tier twice, or gives one a share that is
        not a single client.
    """
    matches = [_ENTRY.fullmatch(entry) for entry in text.split(",")]
    found = [(create(match[1], 0, are_rates), match[2]) for match in matches if match]
    if len({tier.name for tier, _ in found}) < len(matches):
        wrong = next((e for e, m in zip(text.split(","), matches) if m is None), "")
        raise ValueError(
            "tiers must be like strong:16,moderate:16,weak:96, each once; a number of removed "
            "blocks, a capacity below 1, a rate such as 1/2 or a budget such as memory:0.25 may "
            "stand for a name, and a share such as 87.5% for a number. "
            f"Received: tiers={text!r}{_meant(wrong)}"
        )
    counts = _counts([number for _, number in found], text, clients)
    return tuple(dataclasses.replace(tier, count=n) for (tier, _), n in zip(found, counts))


def _counts(numbers: Sequence[str], text: str, clients: Optional[int]) -> list[int]:
    """Return the clients of each tier: numbers as they are, shares rounded so that they add up."""
    hundredths = [fractions.Fraction(n[:-1] if n.endswith("%") else 0) for n in numbers]
    ends = [end * (clients or 0) / 100 for end in itertools.accumulate(hundredths)]
    rounded = [0, *(math.floor(end + fractions.Fraction(1, 2)) for end in ends)]
    of_shares = [stop - start for start, stop in zip(rounded, rounded[1:])]
    if clients and any(share > 0 and n < 1 for share, n in zip(hundredths, of_shares)):
        raise ValueError(
            f"a tier's share must be at least one of {clients} clients. Received: tiers={text!r}"
        )
    return [n if number.endswith("%") else int(number) for n, number in zip(of_shares, numbers)]


def select(tiers: Sequence[Tier], only: str) -> tuple[Tier, ...]:
    """Return the tiers that a text such as 'strong,weak' names; all of them if it is empty.

    Raises:
      ValueError: If it names others, or one of them twice.
    """
    named = {tier.name: tier for tier in tiers}
    names = only.split(",") if only else [*named]
    names = [_budget(name, 0).name if ":" in name else name for name in names]
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
