"""Which channels are kept: ordered, rolling, random and by score."""

import numpy as np
import pytest
import tensorflow as tf
from scipy import special

from tests.submodels.nets import NETS
from tff_partial.submodels import groups as channel_groups
from tff_partial.submodels import selection


def test_fedrolex_rolls_forward_as_in_the_paper_and_not_as_in_its_code():
    channels = channel_groups.analyse(NETS["dense"][1])
    rule, widths = selection.rolling(channels), [group.size for group in channels.groups]
    forward, backward = [], []
    for t in range(9):
        found = rule(selection.Request([3, 2], None, None, t))
        for indices, m, k in zip(found, widths, (3, 2)):
            paper, code = (np.sort(np.roll(np.arange(m), s)[:k]) for s in (-t, t))
            forward.append(np.array_equal(indices, paper))
            backward.append(np.array_equal(indices, code))
    assert all(forward)
    assert not all(backward)


def test_fedrolex_covers_every_channel_equally_in_one_cycle():
    channels = channel_groups.analyse(NETS["conv"][1])
    rule, sizes = selection.rolling(channels), [2, 4]
    for group, k in enumerate(sizes):
        m = channels.groups[group].size
        counts = np.zeros(m, int)
        for round_num in range(m):
            kept = rule(selection.Request(sizes, None, None, round_num))[group].numpy()
            assert len(set(kept)) == k
            counts[kept] += 1
        assert (counts == k).all()


def draws(temperature, scores, k, count=2000):
    """How often each neuron is among the k that are kept, for so many clients."""
    counts = np.zeros(len(scores))
    for client in range(count):
        record = {"seed": tf.constant([client, 7])}
        request = selection.Request([k], None, record, 0)
        counts[selection.sampled([tf.constant(scores)], request, temperature)[0].numpy()] += 1
    return counts


def p_value(statistic, degrees):
    """Of the chi-square distribution; scipy.stats warns on import with this NumPy."""
    return special.gammaincc(degrees / 2, statistic / 2)


def test_an_infinite_temperature_is_uniform_by_chi_square():
    counts, k, m, n = draws(1e9, [5.0, 1.0, 0.0, 3.0, 2.0, 9.0], 2), 2, 6, 2000
    # Indicators of a draw without replacement: variance n p (1 - p), correlation -1 / (m - 1).
    expected, variance = n * k / m, n * (k / m) * (1 - k / m)
    statistic = ((counts - expected) ** 2).sum() / variance * (m - 1) / m
    assert p_value(statistic, m - 1) > 1e-3


def test_temperature_one_samples_one_neuron_by_softmax():
    scores = np.array([2.0, 1.0, 0.0, -1.0], np.float32)
    counts = draws(1.0, scores, 1)
    expected = 2000 * np.exp(scores) / np.exp(scores).sum()
    assert p_value(((counts - expected) ** 2 / expected).sum(), 3) > 1e-3


def test_temperature_zero_is_top_k_and_random_dropout_is_uniform():
    assert list(draws(0.0, [0.3, 0.9, 0.1, 0.9], 2, 3)) == [0, 3, 0, 3]
    channels = channel_groups.analyse(NETS["dense"][1])
    rule, counts = selection.random(channels), np.zeros(7)
    for client in range(1400):
        record = {"seed": tf.constant([client, 3])}
        counts[rule(selection.Request([1, 1], None, record, 0))[0].numpy()] += 1
    assert p_value(((counts - 200) ** 2 / 200).sum(), 6) > 1e-3


def test_what_is_expected_of_a_rule_is_known_without_a_client():
    channels = channel_groups.analyse(NETS["dense"][1])
    sizes = [3, 2]
    assert selection.expected(selection.random, channels, sizes)(0) == [
        k / group.size for k, group in zip(sizes, channels.groups)
    ]
    for create_rule in (selection.ordered, selection.rolling):
        found = selection.expected(create_rule, channels, sizes)(4)
        kept = create_rule(channels)(selection.Request(sizes, None, None, 4))
        for a, b in zip(found, kept):
            np.testing.assert_array_equal(a, b)
    with pytest.raises(ValueError, match="choose channels by their data"):
        selection.expected(lambda channels: None, channels, sizes)
