"""Checks of hyperparameters."""

import dataclasses
import math

import pytest

from tff_partial.core import checks


@dataclasses.dataclass(frozen=True)
class Params:
    rate: float = 1.0
    limit: float = 1.0
    count: int = 1


@pytest.mark.parametrize("value", [math.nan, math.inf, -math.inf, 1e40])
def test_numbers_that_float32_cannot_hold_are_refused(value):
    with pytest.raises(ValueError, match="^rate must be a finite float32. Received: rate="):
        checks.finite_fields(Params(rate=value), may_be_infinite=["limit"])


def test_a_field_may_be_infinite_if_it_is_named():
    checks.finite_fields(Params(limit=math.inf, count=10**400), may_be_infinite=["limit"])
    for value in (math.nan, -math.inf, 1e40):
        with pytest.raises(ValueError, match="limit must be"):
            checks.finite_fields(Params(limit=value), may_be_infinite=["limit"])


def test_names_that_are_not_known_are_refused():
    checks.one_of("design", 2, (1, 2))
    with pytest.raises(ValueError, match=r"^design must be one of 1, 2. Received: design='2'$"):
        checks.one_of("design", "2", (1, 2))


@pytest.mark.parametrize(
    ("name", "known", "expected"),
    [
        ("cifar", ("imdb", "cifar100", "cifar10"), ". Did you mean cifar10?"),
        ("ResNet20", ("resnet18", "resnet20"), ". Did you mean resnet20?"),
        ("partial", ("fedavg", "partial_averaging"), ". Did you mean partial_averaging?"),
        ("learning-rate", ("rounds", "learning_rate"), ". Did you mean learning_rate?"),
        ("x", ("fedavg", "xfedavg"), ""),
        ("zebra", ("fedavg", "scaffold"), ""),
        ("2", (1, 2), ""),
    ],
)
def test_a_misspelt_name_gets_a_suggestion(name, known, expected):
    assert checks.did_you_mean(name, known) == expected
    with pytest.raises(ValueError, match=r"^kind must be one of ") as error:
        checks.one_of("kind", name, known)
    assert str(error.value).endswith(f"Received: kind={name!r}{expected}")
