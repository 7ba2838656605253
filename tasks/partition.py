"""Dealing training examples out to clients: rules as text.

A rule is a pure function of the labels (or the writers) and a seed. As text it is a name and its
arguments:

    iid[:SIZE]                  shuffled, sizes equal up to one; or SIZE each, the rest dropped
    unbalanced[:SIGMA]          shuffled, log-normal sizes (SIGMA 0.3)
    dirichlet:ALPHA[,fill]      each class shared out by Dirichlet(ALPHA) over the clients
    dirichlet_per_client:ALPHA  equal sizes, each client with its Dirichlet(ALPHA) over the classes
    classes:L[,SIZE]            L classes a client, each class shared out evenly; or SIZE each
    natural[:WRITERS]           WRITERS (1) random writers a client, other writers dropped
    bootstrap:SIZE              SIZE each, drawn with replacement, for more clients than examples
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Callable, NamedTuple, Optional

import numpy as np

from tasks.assignment import Partition
from tasks.partition_rules import (
    bootstrap,
    classes,
    dirichlet,
    dirichlet_per_client,
    iid,
    natural,
    unbalanced,
)


def _positive(text: str) -> float:
    value = float(text)
    if not 0 < value < np.inf:
        raise ValueError
    return value


def _non_negative(text: str) -> float:
    return 0.0 if float(text) == 0 else _positive(text)


def _count(text: str) -> int:
    value = int(text)
    if value < 1:
        raise ValueError
    return value


def _fill(text: str) -> bool:
    if text != "fill":
        raise ValueError
    return True


class Rule(NamedTuple):
    """A rule, how its arguments read, and how many of them are required."""

    function: Optional[Callable[..., Partition]]
    usage: str
    arguments: tuple[Callable[[str], Any], ...]
    required: int


RULES: Mapping[str, Rule] = {
    "iid": Rule(iid, "iid or iid:SIZE", (_count,), 0),
    "unbalanced": Rule(unbalanced, "unbalanced or unbalanced:SIGMA", (_positive,), 0),
    "dirichlet": Rule(dirichlet, "dirichlet:ALPHA or dirichlet:ALPHA,fill", (_positive, _fill), 1),
    "dirichlet_per_client": Rule(
        dirichlet_per_client, "dirichlet_per_client:ALPHA", (_positive,), 1
    ),
    "classes": Rule(classes, "classes:L or classes:L,SIZE", (_count, _count), 1),
    "natural": Rule(natural, "natural or natural:WRITERS", (_count,), 0),
    "bootstrap": Rule(bootstrap, "bootstrap:SIZE", (_count,), 1),
    # Not a rule for given examples: the clients are generated, see synthetic.py and
    # synthetic_feddc.py.
    "synthetic": Rule(None, "synthetic:ALPHA,BETA", (_non_negative, _non_negative), 2),
}


def parse(text: str) -> tuple[str, tuple[Any, ...]]:
    """The name and the arguments in a partition's text.

    Raises:
      ValueError: for an unknown name, or arguments the rule does not take.
    """
    name, _, rest = text.partition(":")
    if name not in RULES:
        raise ValueError(f"partition must be one of {', '.join(RULES)}. Received: partition={text}")
    rule, parts = RULES[name], rest.split(",") if rest else []
    try:
        if not rule.required <= len(parts) <= len(rule.arguments):
            raise ValueError
        return name, tuple(read(part) for read, part in zip(rule.arguments, parts))
    except ValueError:
        raise ValueError(f"partition must read {rule.usage}. Received: partition={text}") from None


def create(
    text: str, labels: np.ndarray, clients: int, seed: int, writers: Optional[np.ndarray] = None
) -> Partition:
    """The partition that `text` describes.

    Args:
      text: A rule with its arguments, such as 'dirichlet:0.1'.
      labels: The class of each example, integers [n].
      clients: The number of clients.
      seed: A non-negative number; the same one gives the same partition.
      writers: The natural client of each example [n], for 'natural'.

    Returns:
      A partition of `clients` clients.

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
    return function(writers if name == "natural" else labels, clients, seed, *arguments)
