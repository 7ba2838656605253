"""The algorithms by name: a line for each module. Flags, documents and tests read it."""

from __future__ import annotations

import importlib
from collections.abc import Mapping
from typing import Any

from tff_partial.algorithms.declaration import Algorithm

_MODULES = (
    "fedavg",
    "embracing",
    "fedpmt",
    "fedpart",
    "prefix",
    "channel",
    "fedumf",
    "fedprox",
    "fednova",
    "scaffold",
    "feddyn",
    "feddc",
    "partial_averaging",
    "periodic_averaging",
    "vrl_sgd",
    "adaptive_averaging",
    "post_local_sgd",
    "feddse",
    "feddf",
    "heterofl",
    "fedrolex",
    "fiarse",
    "feddropout",
    "fjord",
    "width_reduction",
    "fedumf_feddc",
)

ALGORITHMS: Mapping[str, Algorithm[Any]] = {
    name: importlib.import_module(f"tff_partial.algorithms.{name}").ALGORITHM for name in _MODULES
}
