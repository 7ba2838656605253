"""The costs of blocks, computed by hand, for models of any kind."""

import pytest
import tensorflow as tf

from tests import tiny
from tests.costs.specs import dense, own, spec
from tff_partial import costs
from tff_partial.costs.blocks import measure


def test_costs_follow_pooling_that_floors_and_padding():
    """Maps of 28, 14, 7 and 3; and of 32 to 4, where padded convolutions halve them."""
    sizes = [28**2 * 64, 14**2 * 128, 7**2 * 256, 3**2 * 512, 10]
    assert [cost.activations for cost in measure(spec("four_conv_cnn"))] == sizes
    maps = {"stage2_block1": 3 * 16**2 * 128, "stage4_block1": 3 * 4**2 * 512}
    found = {cost.name: cost.activations for cost in measure(spec("preact_resnet18"))}
    assert {name: found[name] for name in maps} == maps


def test_dense_blocks_by_hand():
    hidden, output = measure(tiny.spec())
    assert (hidden.name, hidden.parameters, hidden.activations) == ("hidden", 24, 4)
    assert (hidden.forward, hidden.update) == (4 * 5 + 4, 4 * 5)
    assert (hidden.error, hidden.backward) == (4 + 4 * 3, 4 + 4 * 3 + 4 * 5)
    assert (output.error, output.backward) == (2 * 3, 2 * 3 + 3 * 4)
    assert not hidden.halvable


def test_statistics_are_counted_and_skipped_over():
    hidden, norm, _ = measure(tiny.spec(batch_norm=True))
    assert (norm.parameters, norm.statistics, norm.activations, norm.forward) == (8, 8, 0, 0)
    # The normalisation is no dense layer, but what follows it is.
    assert hidden.error == 4 + 4 * 3
    client = costs.whole(tiny.spec(batch_norm=True), 2)
    assert client.bytes_up == client.bytes_down == 4 * (24 + 16 + 15)


def test_costs_are_measured_once():
    model = tiny.spec()
    assert measure(model) is measure(model)


def test_nested_and_shared_layers():
    def residual():
        x = tf.keras.Input((6, 6, 3))
        conv = tf.keras.layers.Conv2D(3, 3, padding="same", use_bias=False)
        return tf.keras.Model(x, tf.keras.layers.Add()([conv(conv(x)), x]), name="residual")

    def nested():
        inner = tf.keras.Sequential([tf.keras.layers.Flatten(), tf.keras.layers.Dense(7)])
        return tf.keras.Sequential([inner, tf.keras.layers.ReLU()], name="nested")

    first, second, last = measure(own(residual, nested, dense(2, "last"), shape=(6, 6, 3)))
    assert (first.name, first.parameters) == ("residual", 81)
    assert (first.activations, first.forward) == (2 * 108, 2 * 81 * 36)
    assert (first.backward, first.error, first.update) == (4 * 81 * 36, 2 * 81 * 36, 0)
    assert (second.parameters, second.activations) == (108 * 7 + 7, 7)
    assert second.error == 7 + 7 * 2
    assert last.error == 2 * 2


def test_users_own_layers():
    class Scale(tf.keras.layers.Layer):
        def build(self, shape):
            self.scale = self.add_weight("scale", [shape[-1]])

        def call(self, x):
            return x * self.scale

    class Twice(tf.keras.layers.Layer):
        def __init__(self):
            super().__init__()
            self.dense = tf.keras.layers.Dense(5)

        def call(self, x):
            return self.dense(self.dense(x))

    class MyDense(tf.keras.layers.Dense):
        pass

    scale, twice, last = measure(own(Scale, Twice, lambda: MyDense(3)))
    assert (scale.parameters, scale.activations, scale.forward, scale.backward) == (5, 0, 0, 0)
    assert (twice.parameters, twice.activations, twice.forward) == (30, 10, 2 * 30)
    assert (last.parameters, last.activations) == (18, 3)


def test_sequences():
    steps, features, units = 6, 4, 3
    model = own(
        lambda: tf.keras.layers.Embedding(9, features),
        lambda: tf.keras.layers.LSTM(units, return_sequences=True),
        lambda: tf.keras.layers.TimeDistributed(tf.keras.layers.Dense(2)),
        lambda: tf.keras.layers.Bidirectional(tf.keras.layers.GRU(units)),
        dense(1),
        shape=(steps,),
        input_dtype="int32",
    )
    embedding, lstm, distributed, gru, last = measure(model)
    assert (embedding.forward, embedding.backward, embedding.activations) == (0, 24, 0)
    step = 4 * units * (features + units) + 4 * units
    assert (lstm.forward, lstm.backward) == (steps * step, 2 * steps * step)
    assert (lstm.activations, lstm.first_half) == (10 * steps * units, 3 * step)
    assert (distributed.activations, distributed.forward) == (steps * 2, steps * (2 * 3 + 2))
    assert gru.forward == 4 * gru.first_half
    assert [block.halvable for block in measure(model)] == [False, True, False, True, False]
    # As in EmbracingFL's table 1, a single output is not counted.
    assert (last.parameters, last.activations) == (2 * units + 1, 0)


def test_convolutions_of_other_kinds():
    keras = tf.keras.layers
    plain, depthwise, separable = measure(
        own(
            lambda: keras.Conv2D(4, 3, strides=2, groups=2),
            lambda: keras.DepthwiseConv2D(2),
            lambda: keras.SeparableConv2D(5, 2, padding="same"),
            shape=(9, 9, 2),
        )
    )
    assert (plain.activations, plain.forward) == (4 * 16, 9 * 4 * 16)
    assert (depthwise.activations, depthwise.forward) == (4 * 9, 4 * 4 * 9)
    assert (separable.activations, separable.forward) == (5 * 9, (4 * 4 + 4 * 5) * 9)


def test_unknown_shapes_are_refused():
    def some_steps():
        return tf.keras.layers.Lambda(
            lambda x: tf.boolean_mask(x, tf.reduce_any(x > 0, [0, 2]), axis=1)
        )

    model = own(some_steps, dense(2, "last"), shape=(4, 3))
    with pytest.raises(ValueError, match=r"shapes must be known .* Received: layer='last'"):
        measure(model)
