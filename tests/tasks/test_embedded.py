"""Data that come with the library."""

from __future__ import annotations

from unittest import mock

import numpy as np

from tasks import embedded
from tests.tasks.declared import load_embedded


def test_test_digits_come_from_other_originals() -> None:
    with mock.patch.object(embedded, "_place", lambda digits, shifts: digits):
        arrays = embedded.digits(0)
    train = {image.tobytes() for image in arrays.train_x}
    assert len(train) < len(arrays.train_x) == 3 * 1397
    assert not train & {image.tobytes() for image in arrays.test_x}


def test_digits_by_writer_differ_in_style() -> None:
    arrays = embedded.digits_by_writer(0, writers=20)
    assert arrays.writers is not None
    assert set(arrays.writers) == set(range(20))
    brightest = [arrays.train_x[arrays.writers == writer].max() for writer in range(20)]
    assert np.ptp(brightest) > 60


def test_reviews_are_learnable_but_not_trivial() -> None:
    data = load_embedded("imdb", partition="iid", clients=1)
    x, y = data.client(0)
    counts, test_counts = (
        np.stack([np.bincount(row, minlength=1000)[:1000] for row in tokens])
        for tokens in (x, data.test_x)
    )
    weights = counts[y == 1].sum(axis=0) - counts[y == 0].sum(axis=0)
    weights[0] = 0  # Padding says how long a text is, not what it thinks.
    scores = test_counts @ np.where(np.abs(weights) > 200, np.sign(weights), 0)
    accuracy = np.mean((scores > 0) == data.test_y)
    assert 0.8 < accuracy < 0.99
