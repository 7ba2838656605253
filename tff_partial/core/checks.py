"""Checks of hyperparameters: numbers that float32 can hold, names that are known."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Collection

# The largest float32.
LARGEST = float.fromhex("0x1.fffffep127")


def one_of(name: str, value: object, choices: Collection[object]) -> None:
    """Raise a ValueError unless a value is one of the choices."""
    if value not in choices:
        known = ", ".join(str(choice) for choice in choices)
        raise ValueError(f"{name} must be one of {known}. Received: {name}={value!r}")


def finite_fields(params: object, may_be_infinite: Collection[str] = ()) -> None:
    """Raise a ValueError if a field of a dataclass is NaN, infinite or beyond float32."""
    for field in dataclasses.fields(params):  # type: ignore[arg-type]
        name, value = field.name, getattr(params, field.name)
        if isinstance(value, float) and not abs(value) <= LARGEST:
            if value == math.inf and name in may_be_infinite:
                continue
            raise ValueError(f"{name} must be a finite float32. Received: {name}={value}")
