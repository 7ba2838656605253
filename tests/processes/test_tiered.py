"""Computations that are traced tier by tier."""

import numpy as np
import pytest
import tensorflow_federated as tff

from tests import tiny
from tests.algorithms.layer_rounds import LOCAL
from tff_partial.processes import client_work


@pytest.fixture
def traced(monkeypatch):
    """The tiers that have been traced, in this order; None for all at once."""
    calls, original = [], client_work.build

    def build(*args, only=None, **given):
        calls.append(only)
        return original(*args, only=only, **given)

    monkeypatch.setattr(client_work, "build", build)
    return calls


def cohort(*tiers):
    records = tiny.cohort(tiny.client_data(), tiers=3)
    return [records[tier] for tier in tiers]


@pytest.mark.parametrize(
    ("algo", "tiers"),
    [("embracing", ("strong", "moderate", "weak")), ("heterofl", ("1", "1/2", "1/4"))],
)
def test_a_tier_is_traced_when_its_first_client_comes(traced, algo, tiers):
    process = tiny.build(algo, LOCAL, tiers=tiers)
    assert traced == [0]
    state = process.initialize()
    for present, expected in (((0,), [0]), ((2, 0, 2), [0, 2]), ((1, 2), [0, 2, 1])):
        state = process.next(state, cohort(*present)).state
        assert traced == expected


def test_another_runtime_gets_all_tiers_and_agrees(traced):
    process = tiny.build("embracing", LOCAL, tiers=("strong", "moderate", "weak"))
    state = process.initialize()
    expected = process.get_model_weights(process.next(state, cohort(0, 1, 2)).state)
    assert None not in traced
    loaded = tff.framework.ConcreteComputation(
        computation_proto=tff.framework.ConcreteComputation.get_proto(process.next),
        context_stack=tff.framework.get_context_stack(),
        annotated_type=process.next.type_signature,
    )
    assert traced[-1] is None
    actual = process.get_model_weights(loaded(state, cohort(0, 1, 2)).state)
    for a, b in zip(actual.trainable, expected.trainable):
        np.testing.assert_array_equal(a, b)


def test_a_phase_is_traced_in_its_first_round(traced):
    """And another runtime gets all phases, and agrees."""
    process = tiny.build("fedpart", LOCAL, full_rounds=1, rounds_per_group=1)
    running, seen = tiny.Rounds(process, tiny.client_data()), []
    for _ in range(4):
        running.next()
        seen.append([*traced])
    assert seen == [[0], [0, 1], [0, 1, 2], [0, 1, 2]]  # whole, first layer, last layer, whole
    loaded = tff.framework.ConcreteComputation(
        computation_proto=tff.framework.ConcreteComputation.get_proto(process.next),
        context_stack=tff.framework.get_context_stack(),
        annotated_type=process.next.type_signature,
    )
    state = process.initialize()
    for _ in range(4):
        state = loaded(state, running.records).state
    for a, b in zip(tiny.flat(state.global_model_weights), running.weights()):
        np.testing.assert_allclose(a, b, atol=1e-6)
