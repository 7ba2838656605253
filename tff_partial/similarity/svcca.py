"""SVCCA: how similar two representations of the same examples are.

Raghu et al., SVCCA: Singular Vector Canonical Correlation Analysis for Deep Learning Dynamics and
Interpretability, 2017, as Lee et al., Embracing Federated Learning, 2024, use it (section 6.3):

    A <- activations [examples, neurons], each neuron centred;  B likewise
    A = U S V^T;  U_A <- the first 4 columns of U;  U_B likewise
    the CCA coefficients are the singular values of U_A^T U_B
    similarity = the mean of the coefficients, from 0 to 1

"Because SVD requires extremely large memory", several small batches of examples are compared and
the results averaged. Unrelated representations do not have similarity 0: with independent examples
it is up to about sqrt(vectors / examples) of a batch, so that batches must not be too small.

The paper leaves open how the activations of a convolution [n, height, width, channels] are used.
Here positions are examples and channels are neurons, one of the two ways of the code that the paper
used (google/svcca); the other averages over the positions first. That code leaves the last
coefficients out of the mean if together they are at most 2 % of the sum; here all count.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import scipy.linalg
from numpy.typing import ArrayLike

VECTORS = 4
# Directions below this many rounding errors of the activations, taken together, are noise.
_ROUNDINGS = 10


def directions(activations: ArrayLike, vectors: int = VECTORS) -> np.ndarray:
    """Return the top left singular vectors of centred activations [examples, ..., neurons].

    Every axis but the last counts as examples.

    Returns:
      Orthonormal columns float64 [all examples, k]; k < vectors if the activations have fewer
      directions, 0 if they are constant.

    Raises:
      ValueError: If they are not finite, or too few.
    """
    if vectors < 1:
        raise ValueError(f"vectors must be positive. Received: vectors={vectors}")
    rows = _checked(activations)
    precision = np.finfo(rows.dtype).eps
    rows = rows.reshape(-1, rows.shape[-1]).astype(np.float64)
    if len(rows) <= 2 * vectors:
        # Two subspaces of half of the centred space or more always meet.
        raise ValueError(
            f"activations must have more than {2 * vectors} examples for {vectors} vectors. "
            f"Received: {len(rows)} examples"
        )
    # Relative to the norm before centring: of a large mean, only rounding errors remain.
    noise = _ROUNDINGS * precision * np.linalg.norm(rows)
    centred = rows - rows.mean(axis=0)
    # R of the QR decomposition has the same singular values and right vectors, and few rows.
    _, s, right = scipy.linalg.svd(np.linalg.qr(centred, mode="r"), full_matrices=False)
    count = min(vectors, int(np.sum(s > noise)))
    return np.linalg.qr(centred @ (right[:count].T / s[:count]))[0]


def pairwise(bases: Sequence[np.ndarray]) -> np.ndarray:
    """Return the similarity of every two of m results of `directions`: symmetric, [m, m].

    It is from 0 to 1, and does not change when neurons are shifted, or rotated and scaled together;
    0 if one of the two is constant.
    """
    every = np.concatenate(bases, axis=1)
    products = every.T @ every
    ends = np.cumsum([u.shape[1] for u in bases])
    places = [slice(end - u.shape[1], end) for u, end in zip(bases, ends)]
    result = np.zeros((len(bases), len(bases)))
    for i, rows in enumerate(places):
        for j, columns in enumerate(places[: i + 1]):
            result[i, j] = result[j, i] = _mean_coefficient(products[rows, columns])
    return result


def _mean_coefficient(products: np.ndarray) -> float:
    """Return the mean of the singular values of U^T V; 0 if there is none."""
    if not min(products.shape):
        return 0.0
    coefficients = scipy.linalg.svdvals(products)
    return float(np.clip(coefficients, 0.0, 1.0).mean())


def _checked(activations: ArrayLike) -> np.ndarray:
    array = np.asarray(activations)
    if not np.issubdtype(array.dtype, np.floating):
        array = array.astype(np.float64)
    if array.ndim < 2 or not array.size:
        raise ValueError(
            "activations must be [examples, ..., neurons] and not empty. "
            f"Received: shape {array.shape}"
        )
    if not np.isfinite(array).all():
        raise ValueError(
            "activations must be finite. "
            f"Received: {int((~np.isfinite(array)).sum())} values that are not"
        )
    return array
