"""Accuracy where clients are, from a confusion table."""

import numpy as np
import pytest

from tff_partial.core import client_accuracy
from tff_partial.core.client_accuracy import LabelShares

# Rows are labels, columns what a model says of test examples.
CONFUSION = np.array([[8, 2, 0], [1, 3, 0], [5, 5, 10]])
LABELS = [[0, 0, 0, 1], [2], [], [0, 1, 2, 2]]


def accuracy_of(labels):
    """Of examples drawn by the labels, each as likely to be right as in the table."""
    return np.mean([CONFUSION[c, c] / CONFUSION[c].sum() for c in labels])


def test_a_client_weighs_classes_as_it_has_them():
    of_classes = np.diag(CONFUSION) / CONFUSION.sum(axis=1)
    shares = LabelShares(LABELS)
    found = shares.accuracies(of_classes)
    expected = [accuracy_of(labels) for labels in LABELS if labels]
    np.testing.assert_allclose(found, expected)
    assert expected == pytest.approx([0.7875, 0.5, 0.6375])
    assert shares.num_classes == 3


def test_classes_without_test_examples_do_not_count():
    found = LabelShares(LABELS).accuracies(np.array([0.8, 0.75, np.nan]))
    np.testing.assert_allclose(found, [0.7875, (0.8 + 0.75) / 2])  # the second has only these


def test_all_clients_with_the_test_sets_labels_have_its_accuracy():
    labels = np.repeat([0, 1, 2], CONFUSION.sum(axis=1))
    of_classes = np.diag(CONFUSION) / CONFUSION.sum(axis=1)
    whole = np.trace(CONFUSION) / CONFUSION.sum()
    np.testing.assert_allclose(LabelShares([labels] * 3).accuracies(of_classes), [whole] * 3)


@pytest.mark.parametrize(("clients", "lowest"), [(1, 1), (10, 1), (11, 2), (40, 4)])
def test_mean_lowest_tenth_and_spread(clients, lowest):
    values = np.random.default_rng(clients).uniform(size=clients)
    found = client_accuracy.summarize(values)
    assert found == pytest.approx(
        {
            "client_accuracy_mean": values.sum() / clients,
            "client_accuracy_lowest_tenth": sum(sorted(values)[:lowest]) / lowest,
            "client_accuracy_spread": (np.mean(values**2) - values.mean() ** 2) ** 0.5,
        },
        abs=1e-7,
    )


def test_nobody_has_an_example():
    shares = LabelShares([[], []])
    assert shares.num_classes == 0
    assert client_accuracy.summarize(shares.accuracies(np.array([0.5]))) == {}
