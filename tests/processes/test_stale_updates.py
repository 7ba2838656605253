"""Updates that are used a round later."""

import numpy as np
import pytest
import tensorflow as tf

from tests import tiny
from tests.algorithms.stateful_rounds import local
from tests.processes.vectors import check, client, vector
from tff_partial.processes import stale_updates


@pytest.mark.parametrize("name", ["fedumf", "fedumf_feddc"])
def test_training_two_cohorts_is_training_everybody_bit_for_bit(name):
    data = tiny.client_data((12, 7, 20, 9, 6, 15))
    training = local(learning_rate="0.3*0.9,4:0.1,7:0.2", clip_norm=None)
    generator = np.random.default_rng(5)
    cohorts = [generator.choice(6, 2, replace=False).tolist() for _ in range(11)]
    found = []
    for literal in (False, True):
        process = tiny.build(
            name, training, tiny.spec(batch_norm=True), literal=literal, population=6
        )
        running = tiny.Rounds(process, data)
        for now, then in zip(cohorts, cohorts[1:]):
            others = process.unselected(now, then, range(6))
            assert len(others) == (4 if literal else len(set(then) - set(now)))
            running.next(now, others)
        found.append(running)
    two, everybody = found
    for a, b in zip(two.weights(), everybody.weights()):
        np.testing.assert_array_equal(a, b)
    assert [float(m["train_loss"]) for m in two.metrics] == [
        float(m["train_loss"]) for m in everybody.metrics
    ]


@pytest.mark.parametrize(
    ("selected", "stored_in", "fuses"), [(True, 2, True), (True, 1, False), (False, 2, False)]
)
def test_a_selected_client_fuses_what_it_stored_a_round_ago(selected, stored_in, fuses):
    """The learning rate has halved, alpha is 0.6: 0.3 of the update (10, -10)."""
    stored = {"update": vector(10, -10), "round": tf.constant(stored_in)}
    start = stale_updates.fused_start(client(selected=selected), stored, 0.6)
    check(start, *((1 + 3, 2 - 3) if fuses else (1, 2)))


@pytest.mark.parametrize("selected", [True, False])
def test_who_does_not_upload_stores_the_update(selected):
    stored = stale_updates.stored_after(client(selected=selected), vector(1, 1), vector(4, 0))
    check(stored["update"], *((0, 0) if selected else (3, -1)))
    assert int(stored["round"]) == (-2 if selected else 3)


def test_who_trains_beside_the_selected_clients():
    everyone, selected, upcoming = range(5), [1, 3], [3, 4]
    assert stale_updates.also_training(literal=False)(selected, upcoming, everyone) == [4]
    assert stale_updates.also_training(literal=True)(selected, upcoming, everyone) == [0, 2, 4]


@pytest.mark.parametrize("value", [0, -0.5, 1.5, float("nan")])
def test_a_coefficient_is_a_share(value):
    with pytest.raises(ValueError, match=r"fusion must be in \(0, 1\]. Received: fusion="):
        stale_updates.check_coefficient("fusion", value)
