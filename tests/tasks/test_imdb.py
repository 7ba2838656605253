"""IMDB reviews."""

from __future__ import annotations

import numpy as np

from tasks import imdb, mnist
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


def test_real_reviews_have_a_demo_of_their_own() -> None:
    task = imdb.TASK
    assert task.small(is_real=False) is task.demo
    small = task.small(is_real=True)
    assert (small.local_steps, small.clip_norm, small.width) == (50, 1.0, 0.25)
    assert mnist.TASK.small(is_real=True) is mnist.TASK.demo
