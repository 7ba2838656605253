"""Numbers for readers: percent, rounds, seconds and megabytes, with their spread."""

from __future__ import annotations

import math
from typing import Callable, Optional

from tff_partial.results.statistics import Spread

NONE = "–"
MINUS = "−"
Format = Callable[[float], str]


def percent(value: float) -> str:
    """Format a figure that is already in percent."""
    return _signed(f"{value:.2f}")


def one_decimal(value: float) -> str:
    """Format a count, whose mean over seeds need not be whole."""
    if not math.isfinite(value):
        return NONE
    return _signed(f"{value:,.0f}" if value == round(value) else f"{value:,.1f}")


def significant(value: float) -> str:
    """Format four significant digits; no power of ten below ten digits."""
    if not math.isfinite(value):
        return NONE
    if value == 0 or 1e-4 <= abs(value) < 1e10:
        digits = 3 - (math.floor(math.log10(abs(value))) if value else 0)
        text = f"{round(value, digits):,.{max(digits, 0)}f}"
        return _signed(text.rstrip("0").rstrip(".") if "." in text else text)
    return _signed(f"{value:.4g}")


def _signed(text: str) -> str:
    return text.replace("-", MINUS)


def with_spread(spread: Optional[Spread], text: Format, factor: float = 1.0) -> str:
    """Format 'mean ± standard deviation', or the mean alone if there is one seed."""
    if spread is None:
        return NONE
    mean = text(factor * spread.mean)
    if spread.deviation is None:
        return mean
    deviation = factor * spread.deviation
    # As many decimals as the mean; one where the mean happens to be whole.
    decimals = len(mean.partition(".")[2]) or int(not deviation.is_integer())
    return f"{mean} ± {deviation:,.{decimals}f}"


def of_unit(unit: str) -> Format:
    """Return the format of a unit's figures."""
    return {"%": percent, "rounds": one_decimal}.get(unit, significant)
