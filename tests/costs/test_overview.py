"""What is said of tiers, and their table."""

import pytest

from tests import tiny
from tests.costs.specs import dense, own
from tff_partial import costs
from tff_partial.algorithms import registry
from tff_partial.core.local_training import LocalTraining
from tff_partial.core.model import Cut
from tff_partial.costs import overview

MODEL = tiny.spec()


def remark(algo, tier, model=None):
    algorithm, model = registry.ALGORITHMS[algo], model or MODEL
    local = LocalTraining(steps=1, batch_size=2)
    params = algorithm.params(local=local, tiers=("strong", tier))
    strong, own_cost = (algorithm.cost(model, params, each) for each in params.tiers)
    return overview.remark(model, params.tiers[1], own_cost, strong, 2, algorithm.tiers_are_rates)


def test_a_tier_that_equals_strong_is_said():
    one_block = own(dense(3))
    said = "tier weak trains the whole model, as strong does"
    assert remark("embracing", "weak", one_block) == said
    assert remark("embracing", "memory:0.25", one_block).startswith("tier memory:0.25 trains the")
    for tier in ("strong", "0", "blocks:0", "memory:1"):
        assert remark("embracing", tier) == ""
    assert remark("heterofl", "1") == remark("heterofl", "rate:1") == ""


def test_a_tier_far_from_its_budget_is_said():
    # 42 of 106 is within 1.5 times of 0.3 and 0.59, and of nothing beyond.
    assert remark("embracing", "memory:0.3") == remark("embracing", "memory:0.59") == ""
    assert remark("embracing", "memory:0.2") == (
        "tier memory:0.2 takes 0.396 of the memory: there is nothing as small as that"
    )
    assert remark("embracing", "memory:0.9") == (
        "tier memory:0.9 takes 0.396 of the memory: what is next in size takes too much"
    )
    assert "0.578 of the operations" in remark("fedpmt", "compute:0.1")
    assert "1 of the parameters" in remark("channel", "params:0.1")


def test_what_an_algorithm_has_by_itself_is_met():
    for algo, tier in (("heterofl", "rate:0.01"), ("embracing", "blocks:1"), ("embracing", "weak")):
        assert remark(algo, tier) == "", tier
    assert remark("heterofl", "0.01") == ""


def test_figures_and_their_table():
    whole, weak = costs.whole(MODEL, 2), costs.recorded_suffix(MODEL, Cut(1), 2)
    found = {name: overview.figures(c, whole, 2) for name, c in (("strong", whole), ("w", weak))}
    assert found["w"] == {
        "memory": pytest.approx(42 / 106, abs=1e-6),
        "compute": pytest.approx(126 / 218, abs=1e-6),
        "parameters": 15,
        "bytes_down": 4 * 39,
        "bytes_up": 4 * 15,
    }
    assert overview.lines([{"tier": name, **each} for name, each in found.items()]) == [
        "tier    memory  compute  parameters   MB down     MB up",
        "strong       1        1          39  0.000156  0.000156",
        "w        0.396    0.578          15  0.000156     6e-05",
    ]
