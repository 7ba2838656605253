"""Small data that is always there: digits of scikit-learn, generated images, generated reviews.

Everything is a pure function of a seed. None of it is the data set whose name the task bears, and
its description says so wherever a result is shown.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from .task import Arrays

_DIGIT = 20  # Height of a digit after scaling, in a frame of 28.
_PATCH = 15  # Height of a class pattern in a generated image of 32.
_TEST = 1000  # Generated examples to test with.


def digits(seed: int) -> Arrays:
    """Return scikit-learn's digits at 28x28: 1,397 shifted in three ways, 400 others to test."""
    rng = np.random.default_rng(seed)
    (train, train_y), (test, test_y) = _split_digits(rng)
    return Arrays(
        _place(train, rng.integers(-2, 3, (len(train), 2))),
        train_y,
        _place(test, rng.integers(-2, 3, (len(test), 2))),
        test_y,
        description="embedded: scikit-learn's digits scaled to 28x28",
        real=False,
    )


def digits_by_writer(seed: int, writers: int) -> Arrays:
    """Return the same digits by made-up writers, who differ in shift, contrast and number."""
    rng = np.random.default_rng(seed)
    (train, train_y), (test, test_y) = _split_digits(rng)
    shares = rng.lognormal(0.0, 0.3, writers)
    shifts = rng.integers(-3, 4, (writers, 2))
    contrasts = rng.uniform(0.4, 1.0, writers)
    hands = rng.choice(writers, len(train), p=shares / shares.sum())
    test_hands = rng.choice(writers, len(test), p=shares / shares.sum())
    return Arrays(
        _place(train * contrasts[hands, None, None], shifts[hands]),
        train_y,
        _place(test * contrasts[test_hands, None, None], shifts[test_hands]),
        test_y,
        description=f"embedded: scikit-learn's digits scaled to 28x28, {writers} made-up writers",
        real=False,
        writers=hands.astype(np.int32),
    )


def _split_digits(rng: np.random.Generator) -> list[tuple[np.ndarray, np.ndarray]]:
    """Return digits [n, 20, 20] in [0, 255] and labels, to train (each three times) and to test."""
    from sklearn import datasets

    originals = datasets.load_digits()
    labels = originals.target.astype(np.int32)
    scale = _interpolation(8, _DIGIT)
    images = np.clip(scale @ (originals.images * (255 / 16)) @ scale.T, 0, 255)
    order = rng.permutation(len(labels))
    return [(images[part], labels[part]) for part in (np.tile(order[400:], 3), order[:400])]


def _interpolation(old: int, new: int) -> np.ndarray:
    """Return the matrix [new, old] that interpolates linearly from `old` to `new` points."""
    position = np.linspace(0, old - 1, new)[:, None]
    return np.clip(1 - np.abs(position - np.arange(old)), 0, 1)


def _place(images: np.ndarray, shifts: np.ndarray) -> np.ndarray:
    """Return uint8 [n, 28, 28, 1]: each 20x20 image in the middle, moved by its (row, column)."""
    out = np.zeros((len(images), 28, 28, 1), np.uint8)
    for image, frame, (row, column) in zip(images, out, shifts + 4):
        frame[row : row + _DIGIT, column : column + _DIGIT, 0] = image.round()
    return out


def colour_patterns(
    seed: int,
    num_classes: int,
    train: int = 4000,
    strength: float = 50.0,
    places: int = 18,
    cells: int = 5,
) -> Arrays:
    """Return 32x32 images: the class's coloured 15x15 pattern at a random place, faint, in noise.

    A pattern is `cells` x `cells` random colours (deviation `strength`), blown up. Place (one of
    `places` rows and columns in the middle), contrast, brightness and noise (deviation 40) differ
    from image to image.
    """
    rng = np.random.default_rng(seed)
    colours = rng.normal(0.0, strength, (num_classes, cells, cells, 3))
    patterns = colours.repeat(_PATCH // cells, axis=1).repeat(_PATCH // cells, axis=2)
    y = _balanced_labels(num_classes, train, rng)
    x = 40 * rng.standard_normal((len(y), 32, 32, 3), np.float32)
    x += rng.uniform(90.0, 160.0, (len(y), 1, 1, 3)).astype(np.float32)
    corners = (18 - places) // 2 + rng.integers(0, places, (len(y), 2))
    contrasts = rng.uniform(0.4, 1.2, len(y))
    for image, label, (row, column), contrast in zip(x, y, corners, contrasts):
        image[row : row + _PATCH, column : column + _PATCH] += contrast * patterns[label]
    x = np.clip(x, 0, 255, out=x).astype(np.uint8)
    description = f"embedded: generated colour patterns, {num_classes} classes"
    return Arrays(x[:train], y[:train], x[train:], y[train:], description=description, real=False)


def _balanced_labels(num_classes: int, train: int, rng: np.random.Generator) -> np.ndarray:
    """Return shuffled labels int32 [train + 1000], every class equally often in each part."""
    parts = [rng.permutation(np.arange(n) % num_classes) for n in (train, _TEST)]
    return np.concatenate(parts).astype(np.int32)


def reviews(seed: int, train: int = 4000) -> tuple[np.ndarray, ...]:
    """Return texts [n] and their sentiment [n] to train with, and 1,000 others to test.

    Texts have 16 to 44 words, mostly neutral; most opinions agree with the label.
    """
    rng = np.random.default_rng(seed)
    y = _balanced_labels(2, train, rng)
    names = [f"name{number}" for number in range(300)]
    kinds = (_NEGATIVE.split(), _POSITIVE.split(), _NEUTRAL.split() + names)
    words = [np.array(kind) for kind in kinds]
    texts = np.array([_review(label, words, rng) for label in y])
    return texts[:train], y[:train], texts[train:], y[train:]


_NEGATIVE = "awful bad boring broken cheap dull flat lazy poor worst"
_POSITIVE = "bold bright charming clever fine funny good great lovely best"
_NEUTRAL = (
    "a about actor after and as at before but by camera cast character director ending film for "
    "from had he her his in into is it its music of on plot role scene screen she story that the "
    "their then there they this to was were when which with year you"
)


def _review(label: int, words: Sequence[np.ndarray], rng: np.random.Generator) -> str:
    negative, positive, neutral = words
    length = rng.integers(16, 45)
    is_opinion = rng.random(length) < 0.4
    is_positive = rng.random(length) < (0.75 if label else 0.25)
    opinions = np.where(is_positive, rng.choice(positive, length), rng.choice(negative, length))
    text = " ".join(np.where(is_opinion, opinions, rng.choice(neutral, length)))
    return text.capitalize() + "."
