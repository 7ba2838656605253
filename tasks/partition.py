"""Dealing training examples out to clients: rules as text.

A rule is a pure function of the labels (or the writers) and a seed. As text it is a name and its
arguments:

    iid[:SIZE]                  shuffled, sizes equal up to one; or SIZE each, the rest dropped
    unbalanced[:SIGMA]          shuffled, log-normal sizes (SIGMA 0.3)
    dirichlet:ALPHA[,fill]      each class shared out by Dirichlet(ALPHA) over the clients
    dirichlet_per_client:ALPHA  equal sizes, each client with its Dirichlet(ALPHA) over the classes
    classes:L[,SIZE]            L classes a client, each class shared out evenly; or SIZE each
    natural[:WRITERS]           WRITERS (1) random writers a client, other writers dropped
    ids:FILE[,OWNERS]           the same with the owner of each example from a file
    bootstrap:SIZE              SIZE each, drawn with replacement, for more clients than examples
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Callable, NamedTuple, Optional

import numpy as np

from tff_partial.core import checks

from . import partition_rules as rules
from .assignment import Partition

# Arguments beyond these are mistakes. With a smaller alpha NumPy draws for ever, and it would make
# no difference: one client gets all of a class already. Larger numbers overflow or fill memory.
LEAST_ALPHA, MOST_ALPHA, MOST_SIGMA, MOST_SIZE = 1e-4, 1e100, 100.0, 10**6


def _between(least: float, most: float) -> Callable[[str], float]:
    def read(text: str) -> float:
        value = float(text)
        if not least <= value <= most:
            raise ValueError
        return value

    return read


def _count(text: str) -> int:
    value = int(text)
    if not 1 <= value <= MOST_SIZE:
        raise ValueError
    return value


def _file(text: str) -> str:
    if not text or "\0" in text:
        raise ValueError
    return text


def _fill(text: str) -> bool:
    if text != "fill":
        raise ValueError
    return True


_ALPHA = _between(LEAST_ALPHA, MOST_ALPHA)
_SIGMA, _DEVIATION = _between(1e-100, MOST_SIGMA), _between(0.0, MOST_SIGMA)
_ALPHAS, _SIZES = f"ALPHA at least {LEAST_ALPHA:g}", f"at most {MOST_SIZE:,}"


class Rule(NamedTuple):
    """A rule, how its arguments read, how many of them are required, and their limits."""

    function: Optional[Callable[..., Partition]]
    usage: str
    arguments: tuple[Callable[[str], Any], ...]
    required: int
    limits: str


RULES: Mapping[str, Rule] = {
    "iid": Rule(rules.iid, "iid or iid:SIZE", (_count,), 0, _SIZES),
    "unbalanced": Rule(
        rules.unbalanced,
        "unbalanced or unbalanced:SIGMA",
        (_SIGMA,),
        0,
        f"SIGMA positive, at most {MOST_SIGMA:g}",
    ),
    "dirichlet": Rule(
        rules.dirichlet, "dirichlet:ALPHA or dirichlet:ALPHA,fill", (_ALPHA, _fill), 1, _ALPHAS
    ),
    "dirichlet_per_client": Rule(
        rules.dirichlet_per_client, "dirichlet_per_client:ALPHA", (_ALPHA,), 1, _ALPHAS
    ),
    "classes": Rule(rules.classes, "classes:L or classes:L,SIZE", (_count, _count), 1, _SIZES),
    "natural": Rule(rules.natural, "natural or natural:WRITERS", (_count,), 0, _SIZES),
    "ids": Rule(rules.natural, "ids:FILE or ids:FILE,OWNERS", (_file, _count), 1, _SIZES),
    "bootstrap": Rule(rules.bootstrap, "bootstrap:SIZE", (_count,), 1, _SIZES),
    # Not a rule for given examples: the clients are generated, see synthetic.py and
    # synthetic_feddc.py.
    "synthetic": Rule(
        None, "synthetic:ALPHA,BETA", (_DEVIATION, _DEVIATION), 2, f"from 0 to {MOST_SIGMA:g}"
    ),
}


def parse(text: str) -> tuple[str, tuple[Any, ...]]:
    """Return the name and the arguments in a partition's text.

    Raises:
      ValueError: for an unknown name, or arguments the rule does not take.
    """
    name, _, rest = text.partition(":")
    if name not in RULES:
        received = f"Received: partition={text}{checks.did_you_mean(name, RULES)}"
        raise ValueError(f"partition must be one of {', '.join(RULES)}. {received}")
    rule, parts = RULES[name], rest.split(",") if rest else []
    try:
        if not rule.required <= len(parts) <= len(rule.arguments):
            raise ValueError
        return name, tuple(read(part) for read, part in zip(rule.arguments, parts))
    except ValueError:
        raise ValueError(
            f"partition must read {rule.usage} ({rule.limits}). Received: partition={text}"
        ) from None


def create(
    text: str, labels: np.ndarray, clients: int, seed: int, writers: Optional[np.ndarray] = None
) -> Partition:
    """Return the partition that a text such as 'dirichlet:0.1' describes; a function of the seed.

    Each example has a label and, for 'natural' and 'ids', a writer, both [n].

    Raises:
      ValueError: where the text is wrong or the data cannot be dealt out so.
    """
    name, arguments = parse(text)
    if clients < 1:
        raise ValueError(f"clients must be positive. Received: clients={clients}")
    function = RULES[name].function
    if function is None:
        raise ValueError(
            f"partition must not be {name} here: only tasks that are generated take it. Received: "
            f"partition={text}"
        )
    if name == "ids":  # the file has been read: its owners are the writers
        arguments = arguments[1:]
    by = writers if function is rules.natural else labels
    return function(by, clients, seed, *arguments)
