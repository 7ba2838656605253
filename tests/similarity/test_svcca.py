"""SVCCA against known cases."""

import numpy as np
import pytest
import scipy.linalg
import scipy.stats

from tff_partial.similarity import svcca


def activations(shape, seed=0, dtype=np.float64):
    """Random ones whose directions differ in size, so that the top ones are well defined."""
    rng = np.random.default_rng(seed)
    return (rng.normal(size=shape) * 0.7 ** np.arange(shape[-1])).astype(dtype)


def similarity(a, b, vectors=svcca.VECTORS):
    return svcca.pairwise([svcca.directions(x, vectors) for x in (a, b)])[0, 1]


def rotation(size, seed=1):
    return np.linalg.qr(np.random.default_rng(seed).normal(size=(size, size)))[0]


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_a_representation_is_like_itself(dtype):
    a = activations((200, 10), dtype=dtype)
    assert similarity(a, a) == pytest.approx(1, abs=1e-12)


def test_rotation_shift_and_scale_of_the_neurons_change_nothing():
    a = activations((200, 10))
    b = 3 * a @ rotation(10) + np.arange(10)
    assert similarity(a, b) == pytest.approx(1, abs=1e-12)


def test_any_invertible_map_changes_nothing_if_all_directions_are_kept():
    a = activations((200, 4))
    b = a @ np.random.default_rng(2).normal(size=(4, 4)) + 5
    assert similarity(a, b) == pytest.approx(1, abs=1e-12)


def test_a_rotation_into_more_neurons_is_the_same_representation():
    a = activations((200, 6))
    assert similarity(a, a @ rotation(9)[:6]) == pytest.approx(1, abs=1e-12)


@pytest.mark.parametrize(("neurons", "vectors"), [(4, 4), (30, 4), (30, 1), (30, 7)])
def test_independent_noise(neurons, vectors):
    """The directions of one Gaussian matrix are a random subspace to the other's.

    Then the squared length of the projection of each of k vectors on the other k is distributed as
    Beta(k / 2, (n - 1 - k) / 2), and the mean of the k coefficients is at most the root of the
    largest. Its mean is k / (n - 1), that of the k squared coefficients too.
    """
    n, draws, rng = 1000, 40, np.random.default_rng(3)
    beta = scipy.stats.beta(vectors / 2, (n - 1 - vectors) / 2)
    largest = np.sqrt(beta.isf(1e-6 / (vectors * draws)))
    pairs = rng.normal(size=(draws, 2, n, neurons))
    assert max(similarity(a, b, vectors) for a, b in pairs) < largest
    bases = [[svcca.directions(x, vectors) for x in pair] for pair in pairs]
    squares = [np.sum((u.T @ v) ** 2) / vectors for u, v in bases]
    # The mean of the k columns varies no more than one of them, however they depend.
    deviation = beta.std() / np.sqrt(draws)
    assert np.mean(squares) == pytest.approx(vectors / (n - 1), abs=5 * deviation)


def test_known_correlations():
    """Each neuron of b is cos of one of a plus sin of what is orthogonal to all of a."""
    scales = np.array([8.0, 4.0, 2.0, 1.0])
    u = np.random.default_rng(4).normal(size=(300, 8))
    u = scipy.linalg.orth(u - u.mean(axis=0))
    cosines = np.array([0.9, 0.6, 0.3, 0.0])
    b = u[:, :4] * cosines + u[:, 4:] * np.sqrt(1 - cosines**2)
    assert similarity(u[:, :4] * scales, b * scales[::-1]) == pytest.approx(0.45, abs=1e-12)


def test_only_the_largest_directions_count():
    u = np.random.default_rng(5).normal(size=(300, 6))
    u = scipy.linalg.orth(u - u.mean(axis=0))
    a, b = u[:, [0, 1, 2]] * [9, 8, 1], u[:, [0, 1, 3]] * [9, 8, 1]
    assert similarity(a, b, vectors=2) == pytest.approx(1, abs=1e-12)
    assert similarity(a, b, vectors=3) == pytest.approx(2 / 3, abs=1e-12)


@pytest.mark.parametrize("seed", range(5))
def test_equals_the_angles_of_subspaces(seed):
    a, b = activations((80, 7), seed), activations((80, 12), seed + 10)
    b[:, :7] += 0.5 * a
    tops = []
    for x in (a, b):
        centred = x - x.mean(axis=0)
        largest = scipy.linalg.eigh(centred.T @ centred)[1][:, -4:]
        tops.append(centred @ largest)
    wanted = np.cos(scipy.linalg.subspace_angles(*tops)).mean()
    assert similarity(a, b) == pytest.approx(wanted, abs=1e-10)
    assert 0 < wanted < 1


@pytest.mark.parametrize("seed", range(20))
def test_symmetric_and_from_0_to_1(seed):
    rng = np.random.default_rng(seed)
    n, p, q, vectors = rng.integers((20, 1, 1, 1), (60, 40, 40, 10))
    a = rng.normal(size=(n, p)) * rng.lognormal(0, 3, p)
    b = np.maximum(a[:, :1] + rng.normal(size=(n, q)), 0)
    found = similarity(a, b, vectors)
    assert 0 <= found <= 1
    assert similarity(b, a, vectors) == pytest.approx(found, abs=1e-12)


def test_positions_are_examples():
    a, b = activations((6, 3, 5, 8)), activations((6, 3, 5, 8), 1)
    flat = similarity(a.reshape(90, 8), b.reshape(90, 8))
    assert similarity(a, b) == pytest.approx(flat, abs=1e-15)


def test_pairs_at_once_are_the_pairs():
    # Of 10, 2 and no directions.
    found = [activations((60, 10), 0), activations((60, 2), 1), np.ones((60, 3))]
    bases = [svcca.directions(x) for x in found]
    assert [u.shape for u in bases] == [(60, 4), (60, 2), (60, 0)]
    matrix = svcca.pairwise(bases)
    wanted = [[similarity(a, b) for b in found] for a in found]
    np.testing.assert_allclose(matrix, wanted, atol=1e-12)


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("value", [0.0, 0.1, -7e5])
def test_what_is_constant_has_no_direction(dtype, value):
    constant = np.full((50, 5), value, dtype)
    assert similarity(constant, activations((50, 5), dtype=dtype)) == 0
    assert similarity(constant, constant) == 0


def test_constant_neurons_and_copies_of_neurons_do_not_count():
    a = activations((50, 3), dtype=np.float32)
    more = np.concatenate([a, np.full((50, 2), 0.1, np.float32), a @ rotation(3)], axis=1)
    assert svcca.directions(more.astype(np.float32)).shape == (50, 3)
    assert similarity(a, more.astype(np.float32)) == pytest.approx(1, abs=1e-6)


def test_fewer_neurons_than_vectors():
    rng = np.random.default_rng(6)
    a, b = rng.normal(size=(2, 100, 1))
    wanted = abs(np.corrcoef(a[:, 0], b[:, 0])[0, 1])
    assert similarity(a, b) == pytest.approx(wanted, abs=1e-12)


def test_whole_numbers_and_lists_are_taken():
    a = np.random.default_rng(7).integers(0, 9, (40, 3))
    assert similarity(a, a.tolist()) == pytest.approx(1, abs=1e-12)


@pytest.mark.parametrize(
    ("values", "vectors", "message"),
    [
        (np.ones(20), 4, "examples, ..., neurons"),
        (np.ones((20, 0)), 4, "not empty"),
        (np.ones((8, 3)), 4, "more than 8 examples"),
        (np.full((20, 3), np.nan), 4, "finite"),
        (np.full((20, 3), np.inf), 4, "finite"),
        (np.ones((20, 3)), 0, "vectors must be positive"),
    ],
)
def test_bad_input(values, vectors, message):
    with pytest.raises(ValueError, match=rf"{message}.*Received: "):
        svcca.directions(values, vectors)
