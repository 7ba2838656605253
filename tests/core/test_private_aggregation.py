"""The private mean against NumPy: clip, public denominators, noise."""

import numpy as np
import pytest
import tensorflow as tf
import tensorflow_federated as tff

from tff_partial.core.private_aggregation import Private

SIZES = (3, 20_000)
VALUE = tff.to_type([tff.TensorType(np.float32, [n]) for n in SIZES])
WEIGHT = tff.to_type([np.float32, tff.TensorType(np.float32, [SIZES[1]])])
CONTRIBUTORS = (2.0, 0.5, 7.5)


def held(tier, round_num):
    """Tier 0 holds everything, tier 1 half of the second variable, tier 2 the first one."""
    half = np.arange(SIZES[1]) % 2
    second = {0: np.ones(SIZES[1]), 1: half, 2: np.zeros(SIZES[1])}[tier]
    return [np.float32(tier != 1), second.astype(np.float32)]


# max(E, 1), E being 2 + 7.5 for the first variable, 2 or 2 + 0.5 for the second.
EXPECTED = [9.5, 2.0 + 0.5 * (np.arange(SIZES[1]) % 2)]


def clients(count=4, scale=1.0):
    rng = np.random.default_rng(3)
    values = [[scale * rng.normal(size=n).astype(np.float32) for n in SIZES] for _ in range(count)]
    weights = [[np.float32(1.0), rng.integers(0, 2, SIZES[1]).astype(np.float32)] for _ in values]
    return values, weights


def run(private, values, weights, rounds=1, says_who=False, held=held):
    process = private.mean(says_who, held).create(VALUE, WEIGHT)
    state = process.initialize()
    for _ in range(rounds):
        done = process.next(state, values, weights)
        state = done.state
    return done


def reference(values, weights, clip):
    """The sum of clipped updates over the public denominators."""
    masked = [[v * (w > 0) for v, w in zip(*each)] for each in zip(values, weights)]
    norms = [np.sqrt(sum(np.sum(np.square(v, dtype=np.float64)) for v in each)) for each in masked]
    factors = [min(1.0, clip / norm) if norm else 0.0 for norm in norms]
    return [sum(f * each[i] for f, each in zip(factors, masked)) / EXPECTED[i] for i in range(2)]


@pytest.mark.parametrize("clip", [0.5, 1e4])
def test_without_noise_it_is_the_mean_over_the_public_denominators(clip):
    values, weights = clients()
    values[1][0][1] = np.nan  # counts for nothing
    done = run(Private(0.0, CONTRIBUTORS, clip), values, weights)
    values[1] = [np.zeros(n, np.float32) for n in SIZES]
    for found, expected in zip(done.result, reference(values, weights, clip)):
        np.testing.assert_allclose(found, expected, rtol=2e-5, atol=1e-7)


def test_the_denominators_do_not_depend_on_who_takes_part():
    values, weights = clients(1)
    alone = run(Private(0.0, CONTRIBUTORS, 1e4), values, weights).result
    np.testing.assert_allclose(alone[0], values[0][0] / 9.5, rtol=1e-6)


def test_the_noise_has_the_variance_that_it_should():
    noise, clip = 2.0, 0.5
    values, weights = clients(2, scale=0.0)
    first, second = run(Private(noise, CONTRIBUTORS, clip), values, weights, rounds=2).result
    for parity in (0, 1):
        samples = second[parity::2]
        expected = noise * clip / EXPECTED[1][parity]
        assert np.std(samples) == pytest.approx(expected, rel=0.03)
        assert abs(np.mean(samples)) < 4 * expected / np.sqrt(len(samples))
    again = run(Private(noise, CONTRIBUTORS, clip), values, weights).result[1]
    assert abs(np.corrcoef(again, second)[0, 1]) < 0.05


def test_what_nobody_holds_stays_whatever_the_noise_is():
    def of_first(tier, round_num):
        return [np.float32(1.0), np.zeros(SIZES[1], np.float32)]

    values, weights = clients(1)
    result = run(Private(1.0, (4.0,), 1.0), values, weights, says_who=True, held=of_first).result
    np.testing.assert_array_equal(result["mean"][1], 0)
    assert bool(np.all(result["trained"][0]))
    assert not np.any(result["trained"][1])


def test_less_than_one_contributor_counts_as_one():
    values, weights = clients(1)
    result = run(Private(0.0, (0.25,), 1e4), values, weights, held=lambda *_: held(0, 0)).result
    np.testing.assert_allclose(result[0], values[0][0], rtol=1e-5)


def test_the_round_reaches_what_is_held():
    values, weights = clients(1)

    def held_in(tier, round_num):
        return [tf.cast(tf.equal(round_num, 1), tf.float32), np.zeros(SIZES[1], np.float32)]

    private = Private(0.0, (1.0,), 1e4)
    first, second = (run(private, values, weights, r, held=held_in).result[0] for r in (1, 2))
    np.testing.assert_array_equal(first, 0)
    np.testing.assert_allclose(second, values[0][0], rtol=1e-5)


def test_the_adaptive_clip_follows_the_median_and_small_cohorts_have_one():
    values, weights = clients(3)
    clips = [
        float(
            run(Private(z, (3.0, 0.0, 0.0)), values, weights, 4).measurements["dp_query_metrics"][
                "clip"
            ]
        )
        for z in (0.0, 1.0)
    ]
    assert clips[0] == pytest.approx(0.1 * np.exp(0.2 * 0.5 * 4), rel=1e-5)
    assert clips[1] != clips[0]


@pytest.mark.parametrize(
    ("arguments", "named"),
    [
        ((-1.0, (1.0,)), "dp_noise_multiplier"),
        ((float("inf"), (1.0,)), "dp_noise_multiplier"),
        ((1.0, (1.0,), 0.0), "dp_clip"),
        ((1.0, ()), "contributors"),
        ((1.0, (0.0, 0.0)), "contributors"),
        ((1.0, (2.0, -1.0)), "contributors"),
    ],
)
def test_bad_arguments_are_refused(arguments, named):
    with pytest.raises(ValueError, match=rf"{named} must be .*Received"):
        Private(*arguments)


def test_tiers_and_weights_are_checked():
    private = Private(1.0, (1.0, 2.0))
    private.check_weighting("uniform")
    with pytest.raises(ValueError, match="weighting must be uniform with aggregation='dp'"):
        private.check_weighting("examples")
    with pytest.raises(ValueError, match="an entry for each of 3 tiers"):
        private.check_tiers(3)
