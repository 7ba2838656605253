"""IMDB reviews."""

from __future__ import annotations

import numpy as np

from tasks import imdb
from tests.tasks import declared


class TestTask(declared.Task):
    name = "imdb"


def test_text_is_right_aligned_and_fitted_on_training_texts() -> None:
    train, test = imdb.vectorise(["b a a<br />a", "b"], ["A, unseen b!", "a b a b b"], length=4)
    assert train.dtype == np.int32
    assert train.tolist() == [[3, 2, 2, 2], [0, 0, 0, 3]]
    assert test.tolist() == [[0, 2, 1, 3], [3, 2, 3, 3]]


def test_an_empty_text_is_padding() -> None:
    train, test = imdb.vectorise(["a"], ["", "a", ""], length=2)
    assert train.tolist() == [[0, 2]]
    assert test.tolist() == [[0, 0], [0, 2], [0, 0]]
