"""Speeds of devices, and how long a round of them takes."""

import numpy as np
import pytest

from tff_partial.costs import simulated_time


def test_fedpmt_round_times_and_deadline():
    speeds = simulated_time.parse_speeds("0.2,0.25,0.33,0.5,1")
    ratios = (0.46, 0.58, 0.88, 0.94, 1.0)
    seconds = [
        simulated_time.simulated_seconds(round(100 * r), 100, s) for r, s in zip(ratios, speeds)
    ]
    np.testing.assert_allclose(seconds, [0.46 * 50, 0.58 * 40, 0.88 * 30, 0.94 * 20, 10])
    assert simulated_time.round_seconds(seconds, None) == (max(seconds), [True] * 5)
    assert simulated_time.round_seconds(seconds, 26.5) == (max(seconds), [True] * 5)
    fedavg = [simulated_time.simulated_seconds(100, 100, s) for s in speeds]
    np.testing.assert_allclose(fedavg, [50, 40, 30, 20, 10])
    assert simulated_time.round_seconds(fedavg, 26.5) == (26.5, [False, False, False, True, True])
    assert simulated_time.round_seconds([], 26.5) == (0.0, [])


def test_speeds():
    assert simulated_time.parse_speeds("0.33,1,2.5") == (1 / 3, 1.0, 2.5)
    assert simulated_time.speed(0.66) == 0.66
    assert simulated_time.speed(2) == 2
    for text in ("", "0", "-1", "nan", "inf", "fast", "1,,2"):
        with pytest.raises(ValueError, match=rf"^speeds must be .* Received: speeds='{text}'$"):
            simulated_time.parse_speeds(text)


def test_weaker_clients_are_slower_in_equal_shares():
    strengths = np.array([1.0, 0.2, 0.2, 0.5, 0.2, 0.2, 1.0, 0.5])
    found = simulated_time.assign_speeds((1.0, 0.25, 0.5), strengths, seed=3)
    values, counts = np.unique(found, return_counts=True)
    assert values.tolist() == [0.25, 0.5, 1.0]
    assert counts.max() - counts.min() <= 1
    order = np.argsort(strengths, kind="stable")
    assert all(
        max(found[strengths < s], default=0) <= min(found[strengths == s]) for s in strengths
    )
    assert found[order[-1]] == 1.0
    others = [simulated_time.assign_speeds((1.0, 0.25, 0.5), strengths, seed) for seed in range(10)]
    assert len({tuple(speeds) for speeds in others}) > 1
