"""Robust and secure means of updates against NumPy."""

import numpy as np
import pytest
import tensorflow_federated as tff

from tff_partial.core import aggregation, aggregators
from tff_partial.core.aggregators import Aggregator, Robust, Secure

VALUE = tff.to_type([tff.TensorType(np.float32, [2, 3]), tff.TensorType(np.float32, [4])])
WEIGHT = tff.to_type([np.float32, np.float32])


def draw(clients=4, scale=1.0):
    rng = np.random.default_rng(1)
    shapes = ([2, 3], [4])
    return [[scale * rng.normal(size=s).astype(np.float32) for s in shapes] for _ in range(clients)]


def run(aggregator, values, weights, rounds=1):
    process = aggregator.mean().create(VALUE, WEIGHT)
    state = process.initialize()
    for _ in range(rounds):
        done = process.next(state, values, weights)
        state = done.state
    return done


def mean(values, weights):
    totals = [sum(w[i] for w in weights) for i in range(2)]
    sums = [sum(w[i] * v[i] for v, w in zip(values, weights)) for i in range(2)]
    return [s / max(t, 1e-9) for s, t in zip(sums, totals)]


def norm(update):
    return np.sqrt(sum(float(np.sum(np.square(v))) for v in update))


WEIGHTS = [[3.0, 0.0], [5.0, 2.0], [1.0, 4.0], [2.0, 1.0]]


def test_a_clients_whole_update_is_clipped_as_one_vector():
    values = draw()
    done = run(Robust(clip=0.5), values, WEIGHTS)
    clipped = [[v * min(1, 0.5 / norm(update)) for v in update] for update in values]
    for found, expected in zip(done.result, mean(clipped, WEIGHTS)):
        np.testing.assert_allclose(found, expected, rtol=1e-5)
    assert done.measurements["zeroing"]["clipped_count"] == 4


def test_an_update_far_beyond_the_others_is_zeroed():
    values = draw()
    values[1] = [1e4 * v for v in values[1]]
    done = run(Robust(clip=1e6), values, WEIGHTS)
    values[1] = [0 * v for v in values[1]]
    for found, expected in zip(done.result, mean(values, WEIGHTS)):
        np.testing.assert_allclose(found, expected, rtol=1e-5)
    assert done.measurements["zeroed_count"] == 1


def test_by_default_the_clip_follows_the_clients():
    found = [run(Robust(), draw(scale=5.0), WEIGHTS, rounds) for rounds in (1, 8)]
    first, last = (done.measurements["zeroing"]["clipping_norm"] for done in found)
    assert first == 1.0
    assert last > 2.0


@pytest.fixture(scope="module")
def secure():
    process = Secure(bound=8.0).mean().create(VALUE, WEIGHT)
    return lambda values, weights: process.next(process.initialize(), values, weights).result


def test_a_secure_sum_is_the_mean_within_its_quantisation(secure):
    values = draw()
    # Each client's numbers are rounded to steps of 2 * 8 / 2^32; the rest is float32's.
    for found, expected in zip(secure(values, WEIGHTS), mean(values, WEIGHTS)):
        np.testing.assert_allclose(found, expected, rtol=3e-7, atol=4 * 8 / 2**32)


def test_a_secure_sum_cuts_off_at_the_bound_and_drops_what_is_not_finite(secure):
    values = draw(3)
    values[0][0][:] = 100.0
    values[1][0][0, 0] = np.nan
    found = secure(values, [[2.0, 1.0]] * 3)
    np.testing.assert_allclose(found[0], (8.0 + 2 * values[2][0]) / 4, rtol=1e-6)
    np.testing.assert_allclose(found[1], (values[0][1] + values[2][1]) / 2, rtol=1e-6)


def test_weights_are_summed_exactly():
    counts = [[float(2**20 + 1), 1.0], [1.0, 0.0]]
    process = aggregators._secure_counts().create(WEIGHT)
    result = process.next(process.initialize(), counts).result
    assert [float(r) for r in result] == [2**20 + 2, 1]


def test_nothing_is_logged(secure, capfd):
    Secure().mean().create(VALUE, WEIGHT)
    assert "never used" not in capfd.readouterr().err


def test_a_factory_of_tffs_may_be_given():
    factory = aggregation.ContributorMean()
    assert aggregators.as_aggregator(factory).mean() is factory
    assert aggregators.as_aggregator(None) == Aggregator()
    robust = Robust(1.0)
    assert aggregators.as_aggregator(robust) is robust


@pytest.mark.parametrize("bad", [0.0, -1.0, float("nan"), float("inf")])
def test_norms_must_be_positive(bad):
    for create in (Robust, Secure):
        with pytest.raises(ValueError, match="must be a positive float32. Received"):
            create(bad)


def test_what_is_refused_is_named_with_the_reason():
    Robust().check({"dp": "of noise"})
    with pytest.raises(ValueError, match="must not be robust here: of steps. Received"):
        Robust().check({"robust": "of steps"})
