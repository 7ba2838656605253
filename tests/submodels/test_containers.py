"""Narrow copies of layers that consist of others."""

import pytest
import tensorflow as tf

from tests.submodels.specs import block_spec, check_small_equals_zeroed, user_spec
from tff_partial.core.model import ModelSpec
from tff_partial.submodels import groups as channel_groups
from tff_partial.submodels import narrowing

layers = tf.keras.layers


class TransformerBlock(layers.Layer):
    """As Keras's example of text classification has it."""

    def __init__(self, width, heads, hidden):
        super().__init__()
        self.attention = layers.MultiHeadAttention(num_heads=heads, key_dim=3)
        self.ffn = tf.keras.Sequential([layers.Dense(hidden, "relu"), layers.Dense(width)])
        self.norms = [layers.LayerNormalization(epsilon=1e-6) for _ in range(2)]
        self.dropout = layers.Dropout(0.0)

    def call(self, inputs, training=False):
        attended = self.dropout(self.attention(inputs, inputs), training=training)
        x = self.norms[0](inputs + attended)
        return self.norms[1](x + self.ffn(x))


class Embedded(layers.Layer):
    def __init__(self, length, vocabulary, width):
        super().__init__()
        self.tokens = layers.Embedding(vocabulary, width)
        self.positions = layers.Embedding(length, width)

    def call(self, x):
        return self.tokens(x) + self.positions(tf.range(tf.shape(x)[-1]))


def create_transformer():
    parts = [Embedded(5, 20, 6), TransformerBlock(6, 4, 7), layers.GlobalAveragePooling1D()]
    return tf.keras.Sequential([*parts, layers.Dense(8, "relu"), layers.Dense(3)])


def test_a_transformer_of_layers_of_ones_own():
    spec = ModelSpec(create_transformer, (5,), "int32")
    channels = check_small_equals_zeroed(spec, seed=3, halves=False, training=True)
    assert channels.sizes == [6, 4, 7, 8]


class Residual(tf.keras.Model):
    """A subclassed model, with layers in a dictionary and one that is used twice."""

    def __init__(self):
        super().__init__()
        self.first = layers.Conv2D(5, 1)
        self.rest = {"conv": layers.Conv2D(5, 3, padding="same"), "norm": [layers.ReLU()]}

    def call(self, x):
        x = self.first(x)
        for _ in range(2):
            x = x + self.rest["norm"][0](self.rest["conv"](x))
        return x


def test_a_subclassed_model():
    channels = check_small_equals_zeroed(block_spec(Residual), training=True)
    assert channels.sizes == [5]


def test_a_layer_with_variables_of_its_own_is_named():
    class Tokens(layers.Layer):
        def __init__(self):
            super().__init__(name="odd")
            self.dense = layers.Dense(4)

        def build(self, shape):
            self.token = self.add_weight("token", (4,))

        def call(self, x):
            return self.dense(x) + self.token

    spec = user_spec(lambda: tf.keras.Sequential([Tokens(), layers.Dense(2)]), (3,))
    with pytest.raises(ValueError, match="^layers must be .* layer='odd' .* variables of its own$"):
        channel_groups.analyse(spec)


def test_a_number_of_channels_in_a_layer_of_ones_own_is_named():
    class Flat(layers.Layer):
        def __init__(self):
            super().__init__(name="odd")
            self.conv = layers.Conv2D(4, 1)

        def call(self, x):
            return tf.reshape(self.conv(x), [-1, 4 * 4 * 4])

    with pytest.raises(
        ValueError, match="^layers must be .*layer='odd'.*fixed number of channels$"
    ):
        channel_groups.analyse(block_spec(Flat))


def test_wrappers_and_lambdas_keep_their_names_and_functions():
    def create():
        inner = tf.keras.Sequential([layers.Dense(4), layers.Lambda(tf.abs, name="lambda")])
        return layers.TimeDistributed(inner, name="each")

    spec = block_spec(create, (5, 3))
    check_small_equals_zeroed(spec, training=True)
    (each,) = narrowing.create(spec, [2]).instantiate().layers_of(layers.TimeDistributed)
    assert each.name == "each"
    assert each.layer.layers[1].function is tf.abs
