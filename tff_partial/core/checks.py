"""Checks of settings: numbers that float32 can hold, names that are known or misspelt."""

from __future__ import annotations

import dataclasses
import difflib
import math
from collections.abc import Collection, Iterable

# The largest float32.
LARGEST = float.fromhex("0x1.fffffep127")


def one_of(name: str, value: object, choices: Collection[object]) -> None:
    """Raise a ValueError unless a value is one of the choices."""
    if value not in choices:
        known = ", ".join(str(choice) for choice in choices)
        received = f"Received: {name}={value!r}{did_you_mean(value, choices)}"
        raise ValueError(f"{name} must be one of {known}. {received}")


def did_you_mean(name: object, known: Iterable[object]) -> str:
    """Return the end of an error's line: the known name that is most like this one, if any is.

    `. Did you mean cifar10?` for `cifar`; else nothing.
    """
    texts = {each.lower(): each for each in known if isinstance(each, str)}
    if str(name).strip() in texts.values():
        return ""
    text = str(name).strip().lower()
    parts = [each for each in texts if len(text) > 2 and text in each]
    close = difflib.get_close_matches(text, texts, n=1) or parts
    return f". Did you mean {texts[close[0]]}?" if close else ""


def finite_fields(params: object, may_be_infinite: Collection[str] = ()) -> None:
    """Raise a ValueError if a field of a dataclass is NaN, infinite or beyond float32."""
    for field in dataclasses.fields(params):  # type: ignore[arg-type]
        name, value = field.name, getattr(params, field.name)
        if isinstance(value, float) and not abs(value) <= LARGEST:
            if value == math.inf and name in may_be_infinite:
                continue
            raise ValueError(f"{name} must be a finite float32. Received: {name}={value}")
