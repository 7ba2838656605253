"""The accounts of a round: bytes, tiers, simulated seconds and late clients, computed by hand."""

import numpy as np
import pytest

from tff_partial import costs, tiers
from tff_partial.core.local_training import LocalTraining
from tff_partial.costs import rounds
from tff_partial.costs.rounds import Devices


def cost(record=0, forward=0, backward=0, update=0, capacity=1.0, down=0, up=0):
    return costs.ClientCost(
        parameters=0,
        activations=0,
        capacity=capacity,
        record=record,
        forward=forward,
        backward=backward,
        update=update,
        bytes_down=down,
        bytes_up=up,
    )


STRONG = cost(forward=4, backward=8, update=6, down=400, up=400)
WEAK = cost(record=4, forward=1, backward=2, update=2, down=300, up=100)
SIZES = (5, 4, 3, 2)
ONE_SPEED = Devices()
EPOCHS = LocalTraining(epochs=2, batch_size=2)


def accounts_of(
    tier_of=(0, 1, 1, 0),
    tier_costs=(STRONG, WEAK),
    names=("strong", "weak"),
    whole=STRONG,
    local=EPOCHS,
    size_of=SIZES.__getitem__,
    devices=ONE_SPEED,
    seed=0,
):
    shares = np.bincount(tier_of, minlength=len(names)) / len(tier_of)
    return rounds.Accounts(
        names,
        lambda client, round_num: int(tier_of[client]),
        shares,
        tier_costs,
        whole,
        local,
        size_of,
        len(tier_of),
        devices,
        seed,
    )


def test_bytes_and_tiers_of_a_round():
    kept, columns = accounts_of().of_round([1, 2, 3])
    assert kept == [1, 2, 3]
    assert columns == {
        "bytes_down": 300 + 300 + 400,
        "bytes_up": 100 + 100 + 400,
        "simulated_seconds": 5.0,
        "clients_strong": 1,
        "clients_weak": 2,
    }


def test_tiers_without_a_client_count_none():
    _, columns = accounts_of().of_round([2])
    assert (columns["clients_strong"], columns["clients_weak"]) == (0, 1)
    assert accounts_of().of_round([]) == (
        [],
        {
            "bytes_down": 0,
            "bytes_up": 0,
            "simulated_seconds": 0.0,
            "clients_strong": 0,
            "clients_weak": 0,
        },
    )


def test_seconds_of_epochs():
    accounts = accounts_of()
    # Two epochs of 3, 2, 2 and 1 batches; the whole model takes 4 + 8 an example and 6 a step.
    # Ten seconds are those of the average client, with four examples (3.5): 120 operations.
    assert accounts.seconds(0) == pytest.approx(10 * (10 * 12 + 6 * 6) / 120)
    assert accounts.seconds(3) == pytest.approx(10 * (4 * 12 + 2 * 6) / 120)
    assert accounts.seconds(1) == pytest.approx(10 * (4 * 4 + 8 * 3 + 4 * 2) / 120)
    assert accounts.seconds(2) == pytest.approx(10 * (3 * 4 + 6 * 3 + 4 * 2) / 120)


def test_batches_that_are_not_full_and_clients_without_examples_cost_what_they_do():
    accounts = accounts_of(
        local=LocalTraining(epochs=1, batch_size=100), size_of=[50, 0, 2, 8].__getitem__
    )
    # One step each; 12 operations an example and 6 a step; the average client has 15 examples.
    assert accounts.seconds(0) == pytest.approx(10 * (50 * 12 + 6) / (15 * 12 + 6))
    assert accounts.seconds(1) == 0
    steps = accounts_of(
        local=LocalTraining(steps=3, batch_size=2), size_of=[5, 0, 3, 0].__getitem__
    )
    assert (steps.seconds(0), steps.seconds(1), steps.seconds(3)) == (10.0, 0.0, 0.0)


def test_seconds_of_steps():
    accounts = accounts_of(local=LocalTraining(steps=3, batch_size=2))
    assert accounts.seconds(0) == accounts.seconds(3) == 10.0
    assert accounts.seconds(1) == pytest.approx(10 * (4 * 4 + 3 * 8) / (3 * 30))
    assert accounts.seconds(2) == pytest.approx(10 * (4 * 3 + 3 * 8) / (3 * 30))


def test_the_slowest_client_sets_the_pace_without_a_deadline():
    accounts = accounts_of(devices=Devices((0.5,), full_seconds=3))
    # 48 / 120 and 38 / 120 of the operations.
    _, columns = accounts.of_round([2, 1])
    assert columns["simulated_seconds"] == pytest.approx(3 * 0.4 / 0.5)
    _, columns = accounts.of_round([2])
    assert columns["simulated_seconds"] == pytest.approx(3 * 38 / 120 / 0.5)
    assert "clients_late" not in columns


def test_late_clients_are_dropped():
    accounts = accounts_of(devices=Devices(deadline=5))
    kept, columns = accounts.of_round([3, 1, 0, 2])
    assert kept == [3, 1, 2]
    assert columns == {
        "bytes_down": 400 + 300 + 400 + 300,
        "bytes_up": 400 + 100 + 100,
        "simulated_seconds": 5,
        "clients_strong": 1,
        "clients_weak": 2,
        "clients_late": 1,
    }
    assert accounts.of_round([0])[0] == []


def test_a_round_ends_before_the_deadline_if_all_are_done():
    kept, columns = accounts_of(devices=Devices(deadline=5)).of_round([1, 2])
    assert kept == [1, 2]
    assert (columns["simulated_seconds"], columns["clients_late"]) == (4.0, 0)
    # At the deadline is in time.
    kept, columns = accounts_of(devices=Devices(deadline=13)).of_round([0, 1])
    assert kept == [0, 1]
    assert (columns["simulated_seconds"], columns["clients_late"]) == (13.0, 0)


def speeds(shares, tier_of, seed):
    """The clients' speeds, from their seconds."""
    tier_costs = [cost(forward=share) for share in shares]
    accounts = accounts_of(
        tier_of,
        tier_costs,
        [f"{share}" for share in shares],
        whole=cost(forward=100),
        size_of=lambda _: 2,
        devices=Devices((1.0, 0.25, 0.5)),
        seed=seed,
    )
    found = [10 * shares[tier] / 100 / accounts.seconds(i) for i, tier in enumerate(tier_of)]
    return np.round(found, 6).tolist()


def test_weaker_tiers_get_slower_devices():
    tier_of = (2, 0, 1, 0, 2, 1)
    for seed in range(3):
        found = speeds((100, 40, 10), tier_of, seed)
        assert found == [{0: 1.0, 1: 0.5, 2: 0.25}[tier] for tier in tier_of]


def test_the_seed_decides_among_clients_of_a_tier():
    found = [speeds((100,), (0,) * 6, seed) for seed in range(10)]
    assert all(sorted(s) == [0.25, 0.25, 0.5, 0.5, 1.0, 1.0] for s in found)
    assert len({tuple(s) for s in found}) > 1
    assert speeds((100,), (0,) * 6, 3) == found[3]


# EmbracingFL's table 3: 128 clients of ResNet20 and their average capacity.


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("strong:128", 1.00),
        ("strong:64,moderate:64", 0.71),
        ("strong:32,moderate:96", 0.565),
        ("strong:16,moderate:112", 0.4925),
        ("strong:64,weak:64", 0.58),
        ("strong:32,weak:96", 0.37),
        ("strong:16,weak:112", 0.265),
        ("strong:32,moderate:32,weak:64", 0.435),
        ("strong:16,moderate:32,weak:80", 0.33),
        ("strong:16,moderate:16,weak:96", 0.2975),
    ],
)
def test_average_capacity_of_embracingfl_table_3(text, expected):
    # The table shows two decimals, halves rounded up: 0.57, 0.49, 0.27, 0.44, 0.30.
    full = 272_762 + 6_947_136
    capacities = {
        "strong": 1.0,
        "moderate": (257_994 + 2_752_832) / full,
        "weak": (206_346 + 917_824) / full,
    }
    parsed = tiers.parse(text)
    names = [tier.name for tier in parsed]
    accounts = accounts_of(
        tiers.assign(parsed, seed=1), [cost(capacity=capacities[name]) for name in names], names
    )
    found = accounts.average_capacity()
    assert isinstance(found, float)
    assert found == pytest.approx(expected)


# FedPMT's section V-B: five devices, 10 seconds for the whole model at speed 1.


SPEEDS = rounds.parse_speeds("0.2,0.25,0.33,0.5,1")
RATIOS = (46, 58, 88, 94, 100)
SECONDS = (0.46 * 50, 0.58 * 40, 0.88 * 30, 0.94 * 20, 10)


def fedpmt_accounts(tier_of, deadline):
    return accounts_of(
        tier_of,
        [cost(forward=ratio, up=ratio) for ratio in RATIOS],
        [str(ratio / 100) for ratio in RATIOS],
        whole=cost(forward=100),
        local=LocalTraining(steps=5, batch_size=12),
        size_of=lambda _: 60,
        devices=Devices(SPEEDS, deadline, full_seconds=10),
    )


def test_fedpmt_round_times():
    tier_of = (4, 2, 0, 1, 3)
    accounts = fedpmt_accounts(tier_of, deadline=26.5)
    np.testing.assert_allclose(
        [accounts.seconds(i) for i in range(5)], [SECONDS[tier] for tier in tier_of]
    )
    kept, columns = accounts.of_round(range(5))
    assert kept == [0, 1, 2, 3, 4]
    assert (columns["simulated_seconds"], columns["clients_late"]) == (26.4, 0)


def test_fedavg_on_the_devices_of_fedpmt():
    accounts = fedpmt_accounts((4,) * 5, deadline=26.5)
    seconds = [accounts.seconds(i) for i in range(5)]
    np.testing.assert_allclose(sorted(seconds), [10, 20, 30, 40, 50])
    kept, columns = accounts.of_round(range(5))
    assert kept == [i for i, s in enumerate(seconds) if s < 26.5]
    assert (columns["clients_late"], columns["bytes_up"]) == (3, 200)
    assert columns["simulated_seconds"] == 26.5
    slowest = fedpmt_accounts((4,) * 5, deadline=None).of_round(range(5))[1]
    assert slowest["simulated_seconds"] == 50


@pytest.mark.parametrize(
    ("name", "value"),
    [("deadline", 0), ("deadline", -1.0), ("full_seconds", 0), ("full_seconds", float("inf"))],
)
def test_bad_devices(name, value):
    received = f"Received: {name}={value}"
    with pytest.raises(ValueError, match=rf"^{name} must be positive and finite\. {received}$"):
        Devices(**{name: value})


def test_speeds():
    assert rounds.parse_speeds("0.33,1,2.5") == (1 / 3, 1.0, 2.5)
    assert rounds.speed(0.66) == 0.66
    assert rounds.speed(2) == 2
    for text in ("", "0", "-1", "nan", "inf", "fast", "1,,2"):
        with pytest.raises(ValueError, match=rf"^speeds must be .* Received: speeds='{text}'$"):
            rounds.parse_speeds(text)


def test_weaker_clients_are_slower_in_equal_shares():
    strengths = np.array([1.0, 0.2, 0.2, 0.5, 0.2, 0.2, 1.0, 0.5])
    found = rounds.assign_speeds((1.0, 0.25, 0.5), strengths, seed=3)
    values, counts = np.unique(found, return_counts=True)
    assert values.tolist() == [0.25, 0.5, 1.0]
    assert counts.max() - counts.min() <= 1
    order = np.argsort(strengths, kind="stable")
    assert all(
        max(found[strengths < s], default=0) <= min(found[strengths == s]) for s in strengths
    )
    assert found[order[-1]] == 1.0
    others = [rounds.assign_speeds((1.0, 0.25, 0.5), strengths, seed) for seed in range(10)]
    assert len({tuple(speeds) for speeds in others}) > 1


def test_fedpmt_round_times_and_deadline():
    speeds = rounds.parse_speeds("0.2,0.25,0.33,0.5,1")
    ratios = (0.46, 0.58, 0.88, 0.94, 1.0)
    devices = rounds.Devices()
    seconds = [devices.seconds(round(100 * r), 100, s) for r, s in zip(ratios, speeds)]
    np.testing.assert_allclose(seconds, [0.46 * 50, 0.58 * 40, 0.88 * 30, 0.94 * 20, 10])
    assert rounds.round_seconds(seconds, None) == (max(seconds), [True] * 5)
    assert rounds.round_seconds(seconds, 26.5) == (max(seconds), [True] * 5)
    fedavg = [devices.seconds(100, 100, s) for s in speeds]
    np.testing.assert_allclose(fedavg, [50, 40, 30, 20, 10])
    assert rounds.round_seconds(fedavg, 26.5) == (26.5, [False, False, False, True, True])
    assert rounds.round_seconds([], 26.5) == (0.0, [])
