"""What happens to a batch of images."""

from __future__ import annotations

import numpy as np

from tasks import images


def test_augmentation_is_stateless_and_keeps_the_shape() -> None:
    import tensorflow as tf

    x = np.random.default_rng(0).integers(1, 256, (64, 32, 32, 3)).astype(np.uint8)
    augment = tf.function(images.crop_and_flip)
    one, same, other = augment(x, [1, 2]), augment(x, [1, 2]), augment(x, [1, 3])
    assert one.shape == x.shape
    assert one.dtype == tf.uint8
    assert np.array_equal(one, same)
    assert not np.array_equal(one, other)


def test_crops_are_shifted_copies() -> None:
    x = np.arange(1, 37, dtype=np.uint8).reshape(1, 6, 6, 1)
    padded = np.pad(x[0, :, :, 0], 4)
    windows = np.lib.stride_tricks.sliding_window_view(padded, (6, 6)).reshape(-1, 36)
    crops = [np.asarray(images.random_crop(x, [0, seed])).ravel() for seed in range(20)]
    assert all((windows == crop).all(axis=1).any() for crop in crops)
    assert len({crop.tobytes() for crop in crops}) > 10


def test_pixels_are_standardised_by_channel() -> None:
    x = np.array([0, 51, 255, 102], np.uint8).reshape(1, 1, 2, 2)
    found = images.standardise((0.5, 0.2), (0.25, 0.1))(x)
    np.testing.assert_allclose(found.numpy().ravel(), [-2, 0, 2, 2], atol=1e-6)


def test_a_flip_mirrors_about_half_of_the_images() -> None:
    x = np.arange(3, dtype=np.uint8).reshape(1, 1, 3, 1).repeat(100, axis=0)
    rows = images._flip(x, [0, 1]).numpy().reshape(100, 3).tolist()
    assert {tuple(row) for row in rows} == {(0, 1, 2), (2, 1, 0)}
    assert 30 < rows.count([2, 1, 0]) < 70
