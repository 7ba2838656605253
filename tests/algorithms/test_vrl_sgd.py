"""VRL-SGD: periodic averaging with variance reduction."""

import numpy as np

from tests import tiny
from tests.algorithms import averaging_rounds, stateful_rounds
from tests.algorithms.averaging_rounds import local
from tests.experiments.rounds import Data, evaluate
from tff_partial.experiments import loop


class TestRounds(averaging_rounds.Rounds):
    name = "vrl_sgd"


def test_vrl_sgd_differs_from_periodic_averaging_where_clients_change(tmp_path):
    found = {}
    for name in ("vrl_sgd", "periodic_averaging"):
        process = tiny.build(name, local(), population=4, active=2)
        options = loop.LoopOptions(rounds=5, clients_per_round=2, seed=0)
        weights = loop.train(process, Data(4), evaluate, options, str(tmp_path / name))
        found[name] = np.concatenate([w.reshape(-1) for w in tiny.flat(weights)])
    assert np.abs(found["vrl_sgd"] - found["periodic_averaging"]).max() > 1e-3


def test_control_variates_do_not_grow_with_momentum():
    stateful_rounds.check_variates_do_not_grow_with_momentum("vrl_sgd")
