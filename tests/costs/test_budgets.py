"""Budgets: by hand for a 5-4-3 dense network, and the search for a rate against all rates."""

import numpy as np
import pytest

from tests import tiny
from tests.costs.specs import dense, own
from tff_partial import costs, tiers
from tff_partial.algorithms import registry
from tff_partial.core.local_training import LocalTraining
from tff_partial.core.model import Cut
from tff_partial.costs import budgets

BATCH = 2
MODEL = tiny.spec()


# With k hidden units and a batch of two.
def memory(k):
    return 2 * (5 * k + k + 3 * k + 3) + 2 * BATCH * (k + 3)


def parameters(k):
    return 5 * k + k + 3 * k + 3


def operations(k):
    hidden = 6 * k + (k + 3 * k) + 5 * k  # forward, error, gradient
    output = 3 * k + 3 + 6 + 3 * k
    return BATCH * (hidden + output) + 5 * k + 3 * k


# Without the hidden layer; its outputs are computed once, by 24 operations each.
TAIL_MEMORY, TAIL_PARAMETERS = 2 * 15 + 2 * BATCH * 3, 15
TAIL_OPERATIONS = BATCH * (24 + 15 + 6 + 12) + 12


def params_of(algo, tier, **params):
    local = LocalTraining(steps=1, batch_size=BATCH)
    return registry.ALGORITHMS[algo].params(local=local, tiers=("strong", tier), **params)


def test_the_whole_by_hand():
    cost = costs.whole(MODEL, BATCH)
    assert cost.parameters == parameters(4) == 39
    assert cost.operations(1, BATCH, BATCH) == operations(4) == 218
    assert (memory(4), TAIL_MEMORY, TAIL_OPERATIONS) == (106, 42, 126)


@pytest.mark.parametrize(
    ("tier", "units", "removed"),
    [
        ("memory:0.6", 2, 1),  # 62 / 106 and 42 / 106
        ("memory:0.58", 1, 1),  # 62 / 106 is 0.585
        ("memory:0.397", 1, 1),
        ("memory:0.1", 1, 1),  # nothing is as small
        ("memory:1", 4, 0),
        ("compute:0.55", 2, 1),  # 118 / 218; the tail takes 126 / 218
        ("compute:0.57", 2, 1),
        ("compute:0.54", 1, 1),
        ("params:0.54", 2, 1),
        ("params:0.53", 1, 1),
        ("rate:0.5", 2, 1),
        ("rate:3/4", 3, 1),
        ("rate:1", 4, 0),
        ("blocks:0", 4, 0),
        ("blocks:1", 1, 1),  # 42 / 106 are enough for one unit, not for two
    ],
)
def test_the_largest_that_fits(tier, units, removed):
    params = params_of("heterofl", tier)
    found = params.submodel(MODEL, params.tiers[1])
    assert found.sizes == (units,)
    for algo in ("embracing", "fedpmt"):
        cost = registry.ALGORITHMS[algo].cost(MODEL, params_of(algo, tier), tiers.create(tier))
        assert cost.parameters == (TAIL_PARAMETERS if removed else 39), algo


def test_shares_are_those_of_the_whole_model():
    params = params_of("heterofl", "memory:0.6")
    cost = registry.ALGORITHMS["heterofl"].cost(MODEL, params, params.tiers[1])
    found = costs.shares(cost, costs.whole(MODEL, BATCH), BATCH)
    assert found == pytest.approx(
        {"memory": 62 / 106, "compute": 118 / 218, "params": parameters(2) / 39}
    )
    tail = costs.recorded_suffix(MODEL, Cut(1), BATCH)
    found = costs.shares(tail, costs.whole(MODEL, BATCH), BATCH)
    assert found == pytest.approx({"memory": 42 / 106, "compute": 126 / 218, "params": 15 / 39})


TIERED = [name for name, known in registry.ALGORITHMS.items() if "tiers" in known.needs]


@pytest.mark.parametrize("algo", [name for name in TIERED if name != "channel"])
def test_a_budget_holds_for_every_algorithm(algo):
    """Channel alone trains everything, whatever the tier; FIARSE by element computes it all."""
    algorithm, whole = registry.ALGORITHMS[algo], costs.whole(MODEL, BATCH)
    for tier in ("memory:0.62", "params:0.62", "compute:0.95", "rate:0.75", "blocks:1"):
        params = params_of(algo, tier, **({"form": "channel"} if algo == "fiarse" else {}))
        found = costs.shares(algorithm.cost(MODEL, params, params.tiers[1]), whole, BATCH)
        kind, most = budgets.limit(params.tiers[1], MODEL, BATCH)
        is_smallest = (algo, tier) == ("prefix", "blocks:1")  # nothing is as small
        assert is_smallest or found[kind] <= most, (tier, found)


def test_prefix_removes_from_the_other_end():
    """The hidden layer has 24 of 39 parameters, so 0.62 is enough for it and 0.61 for nothing."""
    algorithm = registry.ALGORITHMS["prefix"]
    for tier in ("params:0.62", "params:0.61", "params:0.9", "blocks:1"):
        params = params_of("prefix", tier)
        assert algorithm.cost(MODEL, params, params.tiers[1]).parameters == 24
    params = params_of("prefix", "params:1")
    assert algorithm.cost(MODEL, params, params.tiers[1]).parameters == 39


def test_for_prefix_a_number_of_blocks_is_the_memory_without_the_first_ones():
    model = own(*[dense(8)] * 3, dense(3), shape=(8,))
    params = params_of("prefix", "blocks:2")
    # 72 parameters and 8 activations of each but the last, which has 27 and 3.
    blocks = [2 * (72 + BATCH * 8)] * 3 + [2 * (27 + BATCH * 3)]
    assert sum(blocks[2:]) < sum(blocks[:2])
    cost = registry.ALGORITHMS["prefix"].cost(model, params, params.tiers[1])
    assert cost.parameters == 72
    assert cost.capacity == pytest.approx(blocks[0] / sum(blocks))


def test_what_a_client_does_once_a_round_counts():
    """FedDSE runs the whole model once: 39 of the 109 operations of an example's step."""
    looks = 2 * 39
    for tier, units in (("compute:0.9", 2), ("compute:0.89", 1), ("compute:0.1", 1)):
        params = params_of("feddse", tier)
        assert params.submodel(MODEL, params.tiers[1]).sizes == (units,)
    assert (operations(2) + looks) / operations(4) == pytest.approx(0.899, abs=1e-3)


def test_an_impossible_number_of_blocks_is_refused():
    for algo in ("embracing", "heterofl", "prefix"):
        params = params_of(algo, "blocks:2")
        with pytest.raises(ValueError, match="must be at most 1 for this model"):
            registry.ALGORITHMS[algo].cost(MODEL, params, params.tiers[1])


def steps_of(rng):
    """A share that grows in steps."""
    power, floor = rng.uniform(0.5, 3), rng.uniform(0, 0.2)
    steps = float(rng.integers(1, 40))
    return lambda rate: floor + (1 - floor) * (np.ceil(rate * steps) / steps) ** power


@pytest.mark.parametrize("seed", range(100))
def test_the_search_finds_the_largest_rate_in_few_steps(seed):
    rng = np.random.default_rng(seed)
    count = int(rng.integers(1, 600))
    rates = [(k + 1) / count for k in range(count)]
    share, most, asked = steps_of(rng), float(rng.uniform(0, 1.1)), []

    def counted(rate):
        asked.append(rate)
        return share(rate)

    found = budgets._largest(rates, counted, most)
    fitting = [rate for rate in rates if most >= 1 or (rate < 1 and share(rate) <= most)]
    assert found == (fitting[-1] if fitting else rates[0])
    assert len(asked) <= 3 * np.log2(count + 1) + 3
