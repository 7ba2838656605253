"""Post-local SGD: one step a round at first, then tau."""

import numpy as np
import pytest

from tests import tiny
from tests.algorithms.averaging_rounds import SIZES, TAU, assert_round, local
from tests.references import averaging as reference
from tff_partial.algorithms import post_local_sgd

LENGTHS = [1, 1, TAU, TAU]


def test_equals_numpy_where_the_learning_rate_falls_in_round_2():
    data, learning = tiny.client_data(SIZES), local(learning_rate="0.3,2:0.1", momentum=0.0)
    running = tiny.Rounds(tiny.build("post_local_sgd", learning), data)
    cohort, steps = tiny.cohort(data), []
    for t, length in enumerate(LENGTHS):
        drawn = [tiny.batches(record, t, learning)[:length] for record in cohort]
        rate = 0.3 if t < 2 else 0.1
        steps += [{"learning_rate": rate, "batches": dict(enumerate(b))} for b in zip(*drawn)]
    wanted = reference.run(
        running.weights(), data, steps, reference.Lengths(LENGTHS), weight_decay=0.02
    )
    for t in range(4):
        running.next()
        if LENGTHS[t] == 1:  # all local models are the same
            assert float(running.metrics[-1]["discrepancy"]) < 1e-12
            for a, b in zip(running.weights(), wanted[t]["mean"]):
                np.testing.assert_allclose(a, b, atol=1e-6)
        else:
            assert_round(running, wanted[sum(LENGTHS[: t + 1]) - 1])


def test_without_synchronous_rounds_it_is_periodic_averaging():
    data = tiny.client_data(SIZES)
    ours, periodic = (
        tiny.Rounds(tiny.build(name, local()), data)
        for name in ("post_local_sgd", "periodic_averaging")
    )
    for _ in range(2):
        ours.next()
        periodic.next()
    for a, b in zip(ours.weights(), periodic.weights()):
        np.testing.assert_array_equal(a, b)


@pytest.mark.parametrize(
    ("rate", "given", "first"),
    [
        ("0.1", None, 0),
        ("0.1,5:0.2,7:0.02,9:0.01", None, 7),
        ("0.1~3,2.5:0.01", None, 3),
        ("0.1,5:0.01", 2, 2),
    ],
)
def test_local_sgd_begins_when_the_learning_rate_falls(rate, given, first):
    params = post_local_sgd.Params(local=local(learning_rate=rate), synchronous_rounds=given)
    assert params.first_local_round() == first


def test_a_function_does_not_say_when_it_falls():
    training = local(learning_rate=lambda round_num: 0.1)
    with pytest.raises(ValueError, match="synchronous_rounds must be given .* Received: .*None"):
        post_local_sgd.Params(local=training)
    given = post_local_sgd.Params(local=training, synchronous_rounds=2)
    assert given.first_local_round() == 2
