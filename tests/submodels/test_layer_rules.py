"""The rules of layer kinds, and layers that have none."""

import pytest
import tensorflow as tf

from tests.submodels.specs import check_small_equals_zeroed, user_spec
from tff_partial.submodels import groups as channel_groups
from tff_partial.submodels import layer_rules


class Reversed(tf.keras.layers.Conv2D):
    def call(self, x):
        return super().call(x)[..., ::-1]


class Doubled(tf.keras.layers.Layer):
    def call(self, x):
        return tf.concat([x, x], -1)


@pytest.mark.parametrize(
    ("layer", "why"),
    [
        (lambda: Doubled(name="odd"), "of no such kind"),
        (lambda: tf.keras.layers.Lambda(lambda x: x * 2, name="odd"), "of no such kind"),
        (lambda: tf.keras.layers.Conv2D(4, 1, groups=2, name="odd"), "in one group"),
        (lambda: tf.keras.layers.DepthwiseConv2D(1, depth_multiplier=2, name="odd"), "must be 1"),
        (lambda: tf.keras.layers.BatchNormalization(axis=1, name="odd"), "last axis"),
        (lambda: tf.keras.layers.Permute((3, 1, 2), name="odd"), "of no such kind"),
        (lambda: tf.keras.layers.Reshape((4, 4, 16), name="odd"), "flatten"),
        (lambda: Reversed(4, 1, name="odd"), "a `call` of its own"),
        (
            lambda: tf.keras.layers.AveragePooling2D(data_format="channels_first", name="odd"),
            "last axis",
        ),
    ],
)
def test_a_layer_that_cannot_be_sliced_is_named(layer, why):
    def create():
        first = tf.keras.layers.Conv2D(4, 3, padding="same")
        last = [tf.keras.layers.Flatten(), tf.keras.layers.Dense(2)]
        return tf.keras.Sequential([first, layer(), *last])

    with pytest.raises(ValueError, match=rf"Received: layer='odd'.*{why}"):
        channel_groups.analyse(user_spec(create))


def shared_layer():
    x = tf.keras.Input((6,))
    left, right = (tf.keras.layers.Dense(5)(x) for _ in range(2))
    odd = tf.keras.layers.Dense(4, name="odd")
    return tf.keras.Model(x, tf.keras.layers.Add()([odd(left), odd(right)]))


def given_state():
    x = tf.keras.Input((6,))
    state = tf.keras.layers.Dense(5)(x)
    words = tf.keras.layers.Reshape((3, 2))(x)
    return tf.keras.Model(x, tf.keras.layers.GRU(5, name="odd")(words, initial_state=state))


def states_returned():
    x = tf.keras.Input((6,))
    words = tf.keras.layers.Reshape((3, 2))(x)
    output, _, _ = tf.keras.layers.LSTM(5, return_state=True, name="odd")(words)
    return tf.keras.Model(x, output)


@pytest.mark.parametrize(
    ("create_block", "why"),
    [
        (shared_layer, "used more than once"),
        (given_state, "one input and one output"),
        (states_returned, "one input and one output"),
    ],
)
def test_a_layer_that_is_called_otherwise_than_its_rule_says_is_named(create_block, why):
    def create():
        return tf.keras.Sequential([create_block(), tf.keras.layers.Dense(2)])

    with pytest.raises(ValueError, match=rf"Received: layer='odd'.*{why}"):
        channel_groups.analyse(user_spec(create, (6,)))


@pytest.mark.parametrize(
    ("layer", "expected"),
    [
        (tf.keras.layers.SeparableConv2D(3, 2), (False, True, False)),
        (tf.keras.layers.Conv2D(3, 2, activation="relu"), (False, True, True)),
        (tf.keras.layers.GroupNormalization(1), (True, False, False)),
        (tf.keras.layers.LeakyReLU(), (False, False, True)),
        (tf.keras.layers.Activation("tanh"), (False, False, True)),
        (tf.keras.layers.Dense(3), (False, False, False)),
        (tf.keras.layers.Flatten(), (False, False, False)),
    ],
)
def test_kinds(layer, expected):
    tests = (layer_rules.is_normalization, layer_rules.is_convolution, layer_rules.is_activation)
    assert tuple(test(layer) for test in tests) == expected


def test_layers_inside_of_a_block():
    dense, relu = tf.keras.layers.Dense(3), tf.keras.layers.ReLU()
    assert layer_rules.inner(tf.keras.Sequential([dense, relu])) == [dense, relu]
    assert layer_rules.inner(tf.keras.layers.TimeDistributed(dense)) == [dense]
    assert layer_rules.inner(relu) == []


class Gain(tf.keras.layers.Layer):
    def build(self, input_shape):
        self.gain = self.add_weight("gain", shape=input_shape[-1:])

    def call(self, x):
        return x * self.gain


def test_a_layer_of_ones_own_with_a_registered_rule_is_sliced(monkeypatch):
    def rule(analysis, layer, axes, *shapes):
        analysis.own(layer.gain, axes[0])
        return axes[0]

    spec = user_spec(
        lambda: tf.keras.Sequential(
            [tf.keras.layers.Dense(6, "relu"), Gain(), tf.keras.layers.Dense(2)]
        ),
        shape=(4,),
    )
    with pytest.raises(ValueError, match="of no such kind"):
        channel_groups.analyse(spec)
    monkeypatch.setattr(layer_rules, "_REGISTERED", {})
    layer_rules.register(Gain, rule)
    check_small_equals_zeroed(spec)
