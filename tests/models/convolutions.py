"""Convolutions and batch normalisation in NumPy."""

from __future__ import annotations

import numpy as np


def normalized(x, epsilon):
    """Batch norm of a batch [n, h, w, c] with gamma 1 and beta 0."""
    return (x - x.mean((0, 1, 2))) / np.sqrt(x.var((0, 1, 2)) + epsilon)


def correlated(x, kernel, starts):
    """A convolution with stride 2 whose windows start at these rows and columns of `x`."""
    size = kernel.shape[0]
    rows = [[x[:, i : i + size, j : j + size] for j in starts] for i in starts]
    return np.stack(
        [np.stack([np.einsum("nhwc,hwcd->nd", w, kernel) for w in row], 1) for row in rows], 1
    )
