"""Data sets with models, losses and hyperparameters, and rules that deal them out to clients."""

from __future__ import annotations

from collections.abc import Mapping

from tasks import (
    cifar10,
    cifar100,
    emnist,
    fashion_mnist,
    femnist,
    imdb,
    mnist,
    svhn,
    synthetic,
    synthetic_feddc,
)
from tasks.federated import DATA_KINDS, FederatedData, load
from tasks.task import Arrays, DataError, Settings, Task

TASKS: Mapping[str, Task] = {
    "imdb": imdb.TASK,
    "cifar10": cifar10.TASK,
    "cifar100": cifar100.TASK,
    "femnist": femnist.TASK,
    "emnist": emnist.TASK,
    "mnist": mnist.TASK,
    "fashion_mnist": fashion_mnist.TASK,
    "svhn": svhn.TASK,
    "synthetic": synthetic.TASK,
    "synthetic_feddc": synthetic_feddc.TASK,
}

__all__ = [
    "DATA_KINDS",
    "TASKS",
    "Arrays",
    "DataError",
    "FederatedData",
    "Settings",
    "Task",
    "load",
]
