"""How recipes shrink."""

import dataclasses
import math

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import tasks
from tests.recipes.planning import plan
from tff_partial import tiers
from tff_partial.core import schedules
from tff_partial.experiments import config
from tff_partial.recipes import catalog
from tff_partial.recipes import scale as recipe_scale

EMBRACING = tasks.TASKS["cifar10"].papers["embracingfl"]


@st.composite
def paper_settings(draw):
    clients = draw(st.integers(1, 300))
    cuts = sorted(draw(st.lists(st.integers(0, clients), min_size=2, max_size=2)))
    counts = (cuts[0], cuts[1] - cuts[0], clients - cuts[1])
    rounds = draw(st.integers(1, 3000))
    at = draw(st.integers(1, 3000))
    return dataclasses.replace(
        EMBRACING,
        clients=clients,
        clients_per_round=draw(st.integers(1, clients)),
        tiers=",".join(f"{name}:{count}" for name, count in zip(tiers.NAMES, counts)),
        rounds=rounds,
        eval_every=draw(st.integers(1, 50)),
        learning_rate=f"0.4*0.999~2.5,{at}:0.04",
    )


@settings(max_examples=200, deadline=None)
@given(paper_settings(), st.floats(0.001, 1.0), st.booleans())
def test_scaled_settings_keep_to_the_rule(paper, scale, is_embedded):
    small = recipe_scale.scaled(paper, scale, {}, is_embedded)
    assert small.rounds == max(1, round(scale * paper.rounds))
    expected = max(min(8, paper.clients), round(math.sqrt(scale) * paper.clients))
    assert small.clients == (min(32, expected) if is_embedded else expected)
    assert sum(tier.count for tier in tiers.parse(small.tiers)) == small.clients
    assert min(2, paper.clients_per_round) <= small.clients_per_round <= small.clients
    assert small.clients_per_round <= paper.clients_per_round
    if paper.clients_per_round == paper.clients:
        assert small.clients_per_round == small.clients
    assert small.eval_every <= paper.eval_every
    assert (small.local_steps, small.batch_size) == (paper.local_steps, paper.batch_size)
    before, after = (schedules.create(s.learning_rate) for s in (paper, small))
    factor = small.rounds / paper.rounds
    assert after.changes[0][0] == pytest.approx(factor * before.changes[0][0], rel=1e-3)
    assert after.decay**small.rounds == pytest.approx(before.decay**paper.rounds, rel=1e-3)


@settings(max_examples=50, deadline=None)
@given(paper_settings())
def test_scale_1_is_the_paper(paper):
    assert recipe_scale.scaled(paper, 1.0, {}) == paper


@settings(max_examples=100, deadline=None)
@given(st.integers(1, 400), st.integers(1, 400), st.floats(0.001, 1.0))
def test_what_the_user_gives_is_followed(clients, rounds, scale):
    wanted = {"clients": clients, "rounds": rounds}
    small = recipe_scale.scaled(EMBRACING, scale, wanted)
    assert (small.clients, small.rounds) == (clients, rounds)
    assert small.clients_per_round == min(clients, max(2, round(clients / 4)))
    assert sum(tier.count for tier in tiers.parse(small.tiers)) == clients


def test_only_tiers_and_all_of_them_shrink_together():
    row = next(row for row in catalog.load("embracing/table2").rows if row.id == "weak32-embracing")
    paper = config.create(**{**row.settings, "preset": "paper"}).settings
    assert (paper.only_tiers, paper.clients_per_round) == ("strong,weak", 48)
    small = recipe_scale.scaled(paper, 0.1, {})
    assert small.tiers == "strong:5,weak:10,moderate:25"
    assert small.clients_per_round == 15


@pytest.mark.parametrize("scale", [0.0, -1.0, 1.5, math.nan])
def test_scale_out_of_range(scale):
    with pytest.raises(ValueError, match=r"scale must be in \(0, 1\]"):
        plan("embracing/table3", scale, data="embedded")
