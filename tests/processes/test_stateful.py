"""The process whose clients keep a state."""

import numpy as np
import pytest
import tensorflow as tf
import tensorflow_federated as tff

from tests import tiny
from tests.algorithms.averaging_rounds import NAMES
from tests.algorithms.stateful_rounds import PARAMS, local
from tff_partial.algorithms import registry

ALL = sorted(name for name, entry in registry.ALGORITHMS.items() if "population" in entry.needs)


@pytest.mark.parametrize("name", ALL)
def test_has_what_a_learning_process_has(name):
    process = tiny.build(name, local(epochs=None, steps=3))
    state = process.initialize()
    weights = process.get_model_weights(state)
    doubled = tf.nest.map_structure(lambda w: 2 * np.asarray(w), weights)
    changed = process.set_model_weights(state, doubled)
    for a, b in zip(tiny.flat(process.get_model_weights(changed)), tiny.flat(weights)):
        np.testing.assert_array_equal(a, 2 * b)
    assert tiny.flat(changed.finalizer) or name not in ("scaffold", "feddyn", "feddc")
    hparams = process.get_hparams(state)
    assert tiny.flat(process.set_hparams(state, hparams))[0].shape == tiny.flat(weights)[0].shape
    assert process.state_type == process.initialize.type_signature.result.member
    returned = process.next.type_signature.result.client_states.member
    assert process.client_state_type.is_equivalent_to(returned)
    assert isinstance(process.initial_client_state, tff.Computation)


def test_every_stateful_algorithm_is_compared_with_a_reference():
    in_their_own_files = {"adaptive_averaging", "post_local_sgd"}
    assert set(ALL) == {*PARAMS, *NAMES, *in_their_own_files} - {"fedprox", "fednova"}
