"""Numbers as they are read: percent, rounds, seconds and megabytes, with their spread."""

from __future__ import annotations

import math
from typing import Callable, Optional

from tff_partial.results.statistics import Spread

NONE = "–"
MINUS = "−"
Format = Callable[[float], str]


def percent(value: float) -> str:
    """Of a figure that is already in percent."""
    return _signed(f"{value:.2f}")


def one_decimal(value: float) -> str:
    """For counts, whose mean over seeds need not be whole."""
    if not math.isfinite(value):
        return NONE
    return _signed(f"{value:,.0f}" if value == round(value) else f"{value:,.1f}")


def significant(value: float) -> str:
    """Four significant digits, never as a power of ten where there are fewer than ten digits."""
    if not math.isfinite(value):
        return NONE
    if value == 0 or 1e-4 <= abs(value) < 1e10:
        digits = 3 - (math.floor(math.log10(abs(value))) if value else 0)
        text = f"{round(value, digits):,.{max(digits, 0)}f}"
        return _signed(text.rstrip("0").rstrip(".") if "." in text else text)
    return _signed(f"{value:.4g}")


def _signed(text: str) -> str:
    return text.replace("-", MINUS)


def with_spread(found: Optional[Spread], text: Format, factor: float = 1.0) -> str:
    """'mean ± standard deviation', or the mean where there is one seed only."""
    if found is None:
        return NONE
    mean = text(factor * found.mean)
    if found.deviation is None:
        return mean
    deviation = factor * found.deviation
    # As many decimals as the mean; one where the mean happens to be whole.
    decimals = len(mean.partition(".")[2]) or int(not deviation.is_integer())
    return f"{mean} ± {deviation:,.{decimals}f}"


def of_unit(unit: str) -> Format:
    """How figures of a unit are written."""
    return {"%": percent, "rounds": one_decimal}.get(unit, significant)
