"""SVCCA: how similar two representations of the same examples are.

Raghu et al., SVCCA: singular vector canonical correlation analysis, 2017, as Lee et al., Embracing
federated learning, 2024, use it (papers/embracingfl.txt, section 6.3):

    A <- activations [examples, neurons], each neuron centred;  B likewise
    A = U S V^T;  U_A <- the first 4 columns of U;  U_B likewise
    the CCA coefficients are the singular values of U_A^T U_B
    similarity = the mean of the coefficients, from 0 to 1

"Because SVD requires extremely large memory", several small batches of examples are compared and
the results averaged. Unrelated representations do not have similarity 0: with independent examples
it is up to about sqrt(vectors / examples) of a batch, so that batches must not be too small.

What the paper leaves open: the activations of a convolution [n, height, width, channels]. Positions
are examples here and channels neurons, one of the two ways that the code which the paper used
(google/svcca) offers for maps of one size; the other averages over the positions first. That code
leaves the last coefficients out of its mean if they make up no more than 2 % of the sum together;
here it is the mean of all.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Optional

import numpy as np
import scipy.linalg

VECTORS = 4
# Directions below this many roundings of the activations, taken together, are noise.
_ROUNDINGS = 10


def similarity(
    a: Any, b: Any, vectors: int = VECTORS, batch_examples: Optional[int] = None
) -> float:
    """The mean CCA coefficient of the top singular vectors of two representations, in [0, 1].

    It does not change with the order of the arguments, nor when neurons are shifted, or rotated
    and scaled together.

    Args:
      a: Activations [examples, ..., neurons]; every axis but the last counts as examples.
      b: Those of the same examples in another network; the neurons may be others.
      vectors: Number of singular vectors; all there are where activations have fewer directions.
      batch_examples: If given, batches of so many along the first axis are compared and the results
        averaged; a smaller rest is left out.

    Returns:
      The similarity; 0 if one of them is constant.

    Raises:
      ValueError: If the activations are not of the same examples, are not finite, or are so few
        that any two of them would be similar.
    """
    a, b = _checked(a), _checked(b)
    if a.shape[:-1] != b.shape[:-1]:
        raise ValueError(
            "activations must be of the same examples. "
            f"Received: shapes {a.shape} and {b.shape}, [..., neurons]"
        )
    size = len(a) if batch_examples is None else batch_examples
    if not 1 <= size <= len(a):
        raise ValueError(
            f"batch_examples must be from 1 to {len(a)}. Received: batch_examples={batch_examples}"
        )
    starts = range(0, len(a) - size + 1, size)
    found = [
        mean_coefficient(*(directions(x[start : start + size], vectors) for x in (a, b)))
        for start in starts
    ]
    return float(np.mean(found))


def directions(activations: Any, vectors: int = VECTORS) -> np.ndarray:
    """The top left singular vectors of centred activations.

    Args:
      activations: [examples, ..., neurons]; every axis but the last counts as examples.
      vectors: How many.

    Returns:
      Orthonormal columns float64 [all examples, k]; k < vectors where the activations have fewer
      directions, 0 where they are constant.

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
    # Relative to what they were before: a large mean leaves nothing but its roundings.
    noise = _ROUNDINGS * precision * np.linalg.norm(rows)
    u, s, _ = scipy.linalg.svd(rows - rows.mean(axis=0), full_matrices=False)
    return u[:, : min(vectors, int(np.sum(s > noise)))]


def mean_coefficient(u: np.ndarray, v: np.ndarray) -> float:
    """The mean of the CCA coefficients of two results of `directions`; 0 if there is none."""
    return _mean_of(u.T @ v)


def pairwise(found: Sequence[np.ndarray]) -> np.ndarray:
    """`mean_coefficient` of every two of m results of `directions`: symmetric, [m, m]."""
    every = np.concatenate(found, axis=1)
    products = every.T @ every
    ends = np.cumsum([u.shape[1] for u in found])
    places = [slice(end - u.shape[1], end) for u, end in zip(found, ends)]
    result = np.zeros((len(found), len(found)))
    for i, rows in enumerate(places):
        for j, columns in enumerate(places[: i + 1]):
            result[i, j] = result[j, i] = _mean_of(products[rows, columns])
    return result


def _mean_of(products: np.ndarray) -> float:
    """The mean of the singular values of U^T V."""
    if not min(products.shape):
        return 0.0
    coefficients = scipy.linalg.svdvals(products)
    return float(np.clip(coefficients, 0.0, 1.0).mean())


def _checked(activations: Any) -> np.ndarray:
    found = np.asarray(activations)
    if not np.issubdtype(found.dtype, np.floating):
        found = found.astype(np.float64)
    if found.ndim < 2 or not found.size:
        raise ValueError(
            "activations must be [examples, ..., neurons] and not empty. "
            f"Received: shape {found.shape}"
        )
    if not np.isfinite(found).all():
        raise ValueError(
            "activations must be finite. "
            f"Received: {int((~np.isfinite(found)).sum())} values that are not"
        )
    return found
