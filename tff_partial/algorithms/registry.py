"""The algorithms by name: a line for each module. Flags, documents and tests read it."""

from __future__ import annotations

import importlib
from typing import Any

from tff_partial.algorithms.declaration import Algorithm

_MODULES = (
    "fedavg",
    "embracing",
    "fedpmt",
    "prefix",
    "channel",
    "fedumf",
    "fedprox",
    "scaffold",
    "feddyn",
    "feddc",
    "partial_averaging",
    "periodic_averaging",
    "vrl_sgd",
    "feddse",
    "heterofl",
    "fedrolex",
    "feddropout",
    "fjord",
    "width_reduction",
    "fedumf_feddc",
)


def _declared(module: str) -> Algorithm[Any]:
    return importlib.import_module(f"tff_partial.algorithms.{module}").ALGORITHM


ALGORITHMS = {algorithm.name: algorithm for algorithm in map(_declared, _MODULES)}
