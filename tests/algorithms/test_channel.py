"""The channels that a client shares."""

import numpy as np
import pytest
import tensorflow as tf

from tests.algorithms import layer_rounds
from tests.costs.specs import spec
from tff_partial import costs, tiers
from tff_partial.algorithms import channel
from tff_partial.core import model as model_spec


class TestRounds(layer_rounds.Rounds):
    name = "channel"
    moved = (True,) * 8

    def check_weak(self, initial, found):
        np.testing.assert_array_equal(found[0][:, 3:], initial[0][:, 3:])
        np.testing.assert_array_equal(found[3][3:], initial[3][3:])


def scaled():
    """Batch norm, a GRU and a last layer without bias, inside of a Sequential in a Sequential."""
    layers = tf.keras.layers
    head = tf.keras.Sequential([layers.Dense(4), layers.Dense(2, use_bias=False)])
    blocks = [layers.GRU(5), layers.BatchNormalization(), tf.keras.Sequential([head])]
    return tf.keras.Sequential([*blocks, layers.Activation("tanh")])


@pytest.mark.parametrize(("name", "share"), [("bilstm", 0.5), ("scaled", 0.3), ("scaled", 0.55)])
def test_bytes_of_channels_are_those_of_the_shares_that_a_client_sends(name, share):
    model = model_spec.ModelSpec(scaled, (6, 3)) if name == "scaled" else spec(name)
    params = channel.Params(share=share, tiers=("weak",))
    sent = 0
    with tf.Graph().as_default():
        built = model.instantiate()
        part = channel._part(built, share)
        for variable in (*built.trainable, *built.statistics):
            sent += np.broadcast_to(part.weight(variable), variable.shape).sum()
    assert channel.cost(model, params, params.tiers[0]).bytes_up == 4 * sent
    assert channel.cost(model, params, tiers.create("strong")) == costs.whole(
        model, params.local.batch_size
    )
