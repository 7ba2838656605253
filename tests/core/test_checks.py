"""Checks of hyperparameters."""

import dataclasses
import math

import pytest

from tff_partial.core import checks


@dataclasses.dataclass
class Params:
    alpha: float = 1.0
    limit: float = 1.0
    steps: int = 10**400
    name: str = "nan"


def test_a_value_must_be_one_of_the_choices():
    checks.one_of("design", 2, (1, 2))
    with pytest.raises(ValueError, match=r"^design must be one of 1, 2\. Received: design='2'$"):
        checks.one_of("design", "2", (1, 2))


@pytest.mark.parametrize("alpha", [math.nan, math.inf, -math.inf, 1e39, -1e39])
def test_numbers_must_be_finite_float32(alpha):
    with pytest.raises(ValueError, match=r"^alpha must be a finite float32\. Received: alpha="):
        checks.finite_fields(Params(alpha=alpha), may_be_infinite=["limit"])


def test_what_may_be_infinite_and_what_is_no_float_pass():
    checks.finite_fields(Params(checks.LARGEST, math.inf), may_be_infinite=["limit"])
    with pytest.raises(ValueError, match="limit must be"):
        checks.finite_fields(Params(limit=-math.inf), may_be_infinite=["limit"])
    with pytest.raises(ValueError, match="limit must be"):
        checks.finite_fields(Params(limit=math.inf))
