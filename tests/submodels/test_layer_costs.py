"""What a call of a layer costs, by hand (others: tests/costs/test_blocks.py)."""

import tensorflow as tf

from tests.submodels.specs import block_spec, functional
from tff_partial import costs

layers = tf.keras.layers


def test_attention_by_hand():
    def body(x):
        query = layers.Reshape((3, 4))(x)
        value = layers.Reshape((2, 6))(x)
        return layers.MultiHeadAttention(5, 7, value_dim=8, output_shape=9)(query, value)

    block, *_ = costs.measure(block_spec(functional((12,), body), (12,)))
    heads, queries, keys = 5, 3, 2
    projections = queries * 4 * heads * 7 + keys * 6 * heads * (7 + 8) + queries * heads * 8 * 9
    assert block.forward == projections + heads * queries * keys * (7 + 8)
    assert block.backward == 2 * block.forward
    kept = heads * (queries * 7 + keys * (7 + 8)) + heads * queries * keys + queries * 9
    assert block.activations == kept
