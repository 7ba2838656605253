"""What clients with state send, as one update for an aggregator."""

import collections

import numpy as np

from tests import tiny
from tff_partial.algorithms import scaffold
from tff_partial.core.aggregators import Robust
from tff_partial.core.local_training import LocalTraining
from tff_partial.processes import uploads


def test_sums_are_means_times_the_number_of_clients():
    done = collections.OrderedDict(
        update=[np.float32(2.0), np.ones(3, np.float32)],
        weight=np.float32(5.0),
        summed=collections.OrderedDict(clients=np.float32(1.0), rules=[np.ones(2, np.float32)]),
    )
    value, weight = uploads._join(done)
    assert list(value) == list(weight) == ["update", "summed"]
    assert weight["update"] == [5.0, 5.0]
    assert weight["summed"] == {"rules": [1.0]}
    update, sums = uploads._split(value, np.float32(3.0))
    assert update is value["update"]
    assert sums["clients"] == 3.0
    np.testing.assert_array_equal(sums["rules"][0], [3.0, 3.0])


def test_a_clip_that_nobody_reaches_changes_nothing():
    local = LocalTraining(steps=2, batch_size=4, learning_rate=0.1)
    params = scaffold.Params(local, population=3, weighting="examples")
    found = []
    for aggregator in (None, Robust(clip=1e4)):
        process = scaffold.build(tiny.spec(), params, aggregator)
        state, _ = tiny.run(process, tiny.client_data(), rounds=2)
        found.append([*tiny.flat(state.global_model_weights), *tiny.flat(state.finalizer)])
    for a, b in zip(*found):
        np.testing.assert_allclose(a, b, atol=1e-6)
