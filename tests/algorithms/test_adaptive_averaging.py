"""Adaptive averaging: the interval follows the loss."""

import pytest

from tests import tiny
from tests.algorithms.averaging_rounds import SIZES, assert_round, local
from tests.references import averaging as reference

TAU, ROUNDS = 6, 7


def rounds_of(data, learning):
    """The iterations of each round, tau of them."""
    cohort = tiny.cohort(data)
    drawn = [[tiny.batches(record, t, learning) for record in cohort] for t in range(ROUNDS)]
    return [
        [{"learning_rate": 0.3, "batches": dict(enumerate(step))} for step in zip(*clients)]
        for clients in drawn
    ]


@pytest.mark.parametrize("in_steps", [False, True])
def test_equals_numpy(in_steps):
    data, learning = tiny.client_data(SIZES), local(steps=TAU)
    process = tiny.build("adaptive_averaging", learning)
    running = tiny.Rounds(process.in_steps() if in_steps else process, data)
    lengths, wanted = reference.adacomm_lengths(
        running.weights(),
        data,
        rounds_of(data, learning),
        TAU,
        momentum=0.6,
        weight_decay=0.02,
    )
    assert lengths[0] == TAU > min(lengths) + 1
    for t in range(ROUNDS):
        assert int(running.state.finalizer[1]) == lengths[t] - 1
        running.next()
        assert_round(running, wanted[sum(lengths[: t + 1]) - 1])


def test_a_round_in_which_nobody_trained_leaves_the_interval():
    x, y = tiny.client_data((5,))[0]
    process = tiny.build("adaptive_averaging", local(steps=TAU), population=1)
    running = tiny.Rounds(process, [(x[:0], y[:0])])
    states = process.client_states([0], [True], [process.initial_client_state()])
    metrics = process.next(running.state, states, running.records).metrics
    assert int(metrics["finalizer"]["interval"]) == TAU
    running.next()
    first_loss, segment = running.state.finalizer
    assert (float(first_loss), int(segment)) == (0.0, TAU - 1)


def test_the_interval_varies_so_that_steps_are_not_measured():
    with pytest.raises(ValueError, match="Received: measure_steps=True"):
        tiny.build("adaptive_averaging", local(), measure_steps=True)
