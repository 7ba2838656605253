"""Refuses hyperparameters that float32 cannot hold: NaN, infinite ones, 1e40."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Collection

# The largest float32.
LARGEST = float.fromhex("0x1.fffffep127")


def check_fields(params: object, may_be_infinite: Collection[str] = ()) -> None:
    """Raise a ValueError if a number of a dataclass is NaN, infinite or beyond float32."""
    for field in dataclasses.fields(params):  # type: ignore[arg-type]
        value = getattr(params, field.name)
        if isinstance(value, float) and not abs(value) <= LARGEST:
            if value == math.inf and field.name in may_be_infinite:
                continue
            raise ValueError(
                f"{field.name} must be a finite float32. Received: {field.name}={value}"
            )
