"""Capacities of clients as rates: the share of a model's channels that a client can train.

A rate is drawn for every selected client anew in every round: `1/2:0.2,1/16:0.8` is one half with
probability 0.2, else a sixteenth; without probabilities all rates are equally likely; `feddse` is
the mixture of FedDSE's section 7.
"""

from __future__ import annotations

import fractions
import re

import numpy as np

from tff_partial.tiers import Tier

_RATE = re.compile(r"[0-9]{1,9}/0*[1-9][0-9]{0,8}|[0-9]*\.[0-9]+|1")
# EmbracingFL's widths (table 10: 55 % and 80 % of the channels are dropped).
_NAMED = {"strong": 1.0, "moderate": 0.45, "weak": 0.2}
# FedDSE, section 7: each of five capacities with probability 1/5; 1/16 more, as it is, 1/16 less.
_FEDDSE = {
    "1": (0.0, 0.01, 0.99),
    "1/2": (0.01, 0.98, 0.01),
    "1/4": (0.01, 0.98, 0.01),
    "1/8": (0.01, 0.98, 0.01),
    "1/16": (0.0, 1.0, 0.0),
}


def rate_of(tier: str) -> float:
    """The share of the channels that clients of a tier train.

    Raises:
      ValueError: If it is no rate in (0, 1].
    """
    rate = _NAMED.get(tier)
    if rate is None and _RATE.fullmatch(tier):
        rate = float(fractions.Fraction(tier))
    if rate is None or not 0 < rate <= 1:
        raise ValueError(
            "a tier of sub-models must be strong, moderate, weak or a rate in (0, 1] such as 1/2 "
            f"or 0.5. Received: tier={tier!r}"
        )
    return rate


def parse(text: str) -> dict[str, float]:
    """Rate as text -> probability; they add up to 1, the largest rate comes first.

    Raises:
      ValueError: If the text does not read like 1/2:0.2,1/16:0.8, or a rate is given twice.
    """
    if text == "feddse":
        return _feddse()
    names, shares = [], []
    for entry in text.split(","):
        name, colon, share = entry.partition(":")
        names.append(name)
        shares.append(share if colon else "1")
    numbers = [float(s) if re.fullmatch(r"\d*\.?\d+", s) else -1.0 for s in shares]
    is_share = min(numbers) >= 0 and 0 < sum(numbers) < float("inf")
    if not is_share or len({*map(rate_of, names)}) < len(names):
        raise ValueError(
            "capacities must be feddse or rates, each once, such as 1/4 or 1/2:0.2,1/16:0.8. "
            f"Received: capacities={text!r}"
        )
    found = {name: share / sum(numbers) for name, share in zip(names, numbers)}
    return dict(sorted(found.items(), key=lambda item: -rate_of(item[0])))


def _feddse() -> dict[str, float]:
    found: dict[fractions.Fraction, float] = {}
    for name, shares in _FEDDSE.items():
        for sixteenths, share in zip((1, 0, -1), shares):
            rate = fractions.Fraction(name) + fractions.Fraction(sixteenths, 16)
            found[rate] = found.get(rate, 0.0) + share / len(_FEDDSE)
    return {str(rate): share for rate, share in sorted(found.items(), reverse=True) if share}


def tiers_of(text: str) -> tuple[Tier, ...]:
    """The rates as tiers; nobody belongs to one for good."""
    return tuple(Tier(name, 0) for name in parse(text))


def draw(text: str, seed: int, client: int, round_num: int) -> int:
    """The index in `parse(text)` of a client's rate in a round."""
    shares = list(parse(text).values())
    generator = np.random.default_rng([seed, 0xCA9, client, round_num])
    return int(generator.choice(len(shares), p=np.array(shares) / sum(shares)))
