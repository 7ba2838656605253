"""Data sets with models, losses and hyperparameters, and rules that deal them out to clients."""

from __future__ import annotations

from collections.abc import Mapping
from importlib import import_module

from . import partition
from .federated import DATA_KINDS, FederatedData, load
from .task import Arrays, DataError, Inputs, Settings, Task

# Each is a module of this package with a `TASK`.
_NAMES = (
    "imdb",
    "cifar10",
    "cifar100",
    "femnist",
    "emnist",
    "mnist",
    "fashion_mnist",
    "svhn",
    "synthetic",
    "synthetic_feddc",
)
TASKS: Mapping[str, Task] = {name: import_module(f".{name}", __name__).TASK for name in _NAMES}
