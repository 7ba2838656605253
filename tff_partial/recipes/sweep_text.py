"""Sweeps as text: `learning_rate=0.01,0.05;seed=0..2` is two rates and three seeds.

name=value,value;name=value,value   every combination
seed=0..9                           integers from 0 to 9
tiers=strong:8|strong:4,weak:4      values that have commas are separated by |
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from typing import Union

from tff_partial.core import checks
from tff_partial.core.fields import Value
from tff_partial.experiments import flags

MOST_VALUES = 1000
_RANGE = re.compile(r"(-?\d+)\.\.(-?\d+)")
Swept = dict[str, tuple[Value, ...]]
"""Flags that decide results -> their values."""


def parse(sweep: Union[str, Mapping[str, Iterable[Value]]]) -> Swept:
    """Return what a text or a mapping asks for, with values of the flags' types.

    Raises:
      ValueError: If it does not read like that, or names no flag that decides results.
    """
    if not isinstance(sweep, str):
        return {name: _checked(name, values) for name, values in sweep.items()}
    swept: Swept = {}
    for part in filter(None, (part.strip() for part in sweep.split(";"))):
        name, equals, text = part.partition("=")
        name = name.strip().removeprefix("--")
        if not equals or not text.strip() or name in swept:
            raise ValueError(
                "sweep must read name=value,value;name=value,value, each name once. "
                f"Received: sweep={sweep!r}"
            )
        swept[name] = _checked(name, _values(name, text))
    if not swept:
        raise ValueError(f"sweep must name a flag. Received: sweep={sweep!r}")
    return swept


def _values(name: str, text: str) -> list[str]:
    words = [word.strip() for word in text.split("|" if "|" in text else ",")]
    values: list[str] = []
    for word in words:
        match = _RANGE.fullmatch(word)
        if match is None:
            values.append(word)
            continue
        first, last = int(match[1]), int(match[2])
        if not 0 <= last - first < MOST_VALUES:
            raise ValueError(
                f"a range must rise, by less than {MOST_VALUES}. Received: {name}={word}"
            )
        values += map(str, range(first, last + 1))
    return values


def _checked(name: str, values: Iterable[Value]) -> tuple[Value, ...]:
    """Return the values as the flag's type, each once."""
    if name not in flags.DECIDING:
        raise ValueError(
            "sweep must be over flags that decide results. "
            f"Received: {name}{checks.did_you_mean(name, flags.DECIDING)}"
        )
    if isinstance(values, str):
        raise ValueError(f"sweep must have a list of values. Received: {name}={values!r}")
    checked = tuple(dict.fromkeys(flags.DECIDING[name].check(value) for value in values))
    if not 0 < len(checked) <= MOST_VALUES:
        raise ValueError(
            f"a flag must have from 1 to {MOST_VALUES} values. Received: {len(checked)} of {name}"
        )
    return checked
