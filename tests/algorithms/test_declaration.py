"""Declarations of algorithms: what is wrong with one is an error where it is made."""

import ast
import dataclasses
import inspect
import sys
from typing import Optional

import pytest

from tff_partial.algorithms import registry
from tff_partial.algorithms.declaration import Algorithm, whole_model_cost
from tff_partial.core.local_training import LocalTraining

LOCAL = LocalTraining(steps=1)


@dataclasses.dataclass(frozen=True)
class Described:
    """Hyperparameters.

    Attributes:
      sizes: Sizes of the layers.
      rate: A number, described
        in two lines.
    """

    local: LocalTraining = LOCAL
    sizes: tuple = ()
    rate: Optional[float] = None


@dataclasses.dataclass(frozen=True)
class Undescribed:
    """Hyperparameters without a description."""

    local: LocalTraining = LOCAL
    size: int = 1


def declare(params, needs=()):
    return Algorithm(
        "mine", "a title", "", params, lambda model, params: None, whole_model_cost, needs
    )


def test_fields_are_flags_or_needed():
    (rate,) = declare(Described, needs=("sizes",)).hyperparameters
    assert (rate.name, rate.type) == ("rate", float)
    assert rate.help == "A number, described in two lines. Default: none."


def test_a_field_that_cannot_be_a_flag_is_an_error():
    with pytest.raises(ValueError, match=r"must be one of .*Received: .*sizes of type"):
        declare(Described)


def test_a_flag_that_is_not_described_is_an_error():
    with pytest.raises(ValueError, match="must describe size"):
        declare(Undescribed)


def test_needs_that_are_no_fields_are_an_error():
    with pytest.raises(ValueError, match=r"must be fields .*Received: \['tiers'\]"):
        declare(Described, needs=("sizes", "tiers"))


def test_names_are_those_of_the_modules():
    for name, algorithm in registry.ALGORITHMS.items():
        assert algorithm.build.__module__ == f"tff_partial.algorithms.{name}"


def test_algorithms_import_nothing_of_this_package_but_the_declaration():
    allowed = {"tff_partial.algorithms.declaration"}
    for algorithm in registry.ALGORITHMS.values():
        tree = ast.parse(inspect.getsource(sys.modules[algorithm.build.__module__]))
        froms = {node.module for node in ast.walk(tree) if isinstance(node, ast.ImportFrom)}
        assert {m for m in froms if m.startswith("tff_partial.algorithms")} <= allowed
