"""How accurate a model is where clients are: on the labels that each of them has.

    a_k = sum over classes c of s_kc * a_c

with s_kc the share of class c in client k's training examples and a_c the accuracy on the test
examples of that class. It is the accuracy on test examples drawn by the client's labels, and needs
no test data of its own.
"""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np

from tff_partial.core.types import Array

LOWEST = 0.1  # the share of the clients whose mean is reported apart


class LabelShares:
    """The shares of the labels of each client; what a client lacks takes no space.

    Attributes:
      num_classes: The largest label plus one; 0 if nobody has an example.
    """

    def __init__(self, labels: Iterable[Array]) -> None:
        """Count labels.

        Args:
          labels: Of each client, its labels [n].
        """
        counted = [np.unique(np.asarray(y), return_counts=True) for y in labels]
        self._num_clients = len(counted)
        self._clients = np.repeat(np.arange(len(counted)), [len(found) for found, _ in counted])
        none = np.zeros(0, np.int64)
        self._classes = np.concatenate([none, *(found for found, _ in counted)]).astype(np.int64)
        self._shares = np.concatenate([none, *(count / count.sum() for _, count in counted)])
        self.num_classes = int(self._classes.max(initial=-1)) + 1

    def accuracies(self, of_classes: Array) -> Array:
        """Return the accuracy of each client that has a class which was tested, float64 [m].

        Args:
          of_classes: The accuracy on each class [classes], NaN where none was tested; the others
            then count for the whole.
        """
        values = np.asarray(of_classes, np.float64)[self._classes]
        tested = np.where(np.isnan(values), 0.0, self._shares)

        def sums(weights: Array) -> Array:
            return np.bincount(self._clients, weights, minlength=self._num_clients)

        known, found = sums(tested), sums(tested * np.nan_to_num(values))
        return found[known > 0] / known[known > 0]


def summarize(accuracies: Array) -> dict[str, float]:
    """Return the mean over clients, that of the lowest tenth (at least one client), and the spread.

    The spread is the standard deviation. Without clients there is nothing to return.
    """
    if not len(accuracies):
        return {}
    lowest = np.sort(accuracies)[: int(np.ceil(LOWEST * len(accuracies) - 1e-9))]
    return {
        "client_accuracy_mean": float(np.mean(accuracies)),
        "client_accuracy_lowest_tenth": float(np.mean(lowest)),
        "client_accuracy_spread": float(np.std(accuracies)),
    }
