"""The rules of layer kinds, and layers that have none."""

import numpy as np
import pytest
import tensorflow as tf

from tests.submodels.specs import check_small_equals_zeroed, user_spec
from tff_partial import costs
from tff_partial.submodels import groups as channel_groups
from tff_partial.submodels import layer_rules, narrowing


class Gain(tf.keras.layers.Layer):
    def build(self, input_shape):
        self.gain = self.add_weight("gain", shape=input_shape[-1:])

    def call(self, x):
        return x * self.gain


def in_pairs(x):
    return tf.reshape(x, (-1, 32, 2, 4))


class Reversed(tf.keras.layers.Conv2D):
    def call(self, x):
        return super().call(x)[..., ::-1]


@pytest.mark.parametrize(
    ("layer", "why"),
    [
        (lambda: Gain(name="odd"), "of no such kind"),
        (lambda: tf.keras.layers.Lambda(lambda x: tf.cumsum(x, -1), name="odd"), "Cumsum"),
        (lambda: tf.keras.layers.Lambda(in_pairs, name="odd"), "fixed number of channels"),
        (lambda: tf.keras.layers.BatchNormalization(axis=1, name="odd"), "last axis"),
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

    with pytest.raises(ValueError, match=rf"^layers must be .* layer='odd'.*{why}.*$"):
        channel_groups.analyse(user_spec(create))


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
        (given_state, "one input and one output"),
        (states_returned, "one input and one output"),
    ],
)
def test_a_layer_that_is_called_otherwise_than_its_rule_says_is_named(create_block, why):
    def create():
        return tf.keras.Sequential([create_block(), tf.keras.layers.Dense(2)])

    with pytest.raises(ValueError, match=rf"^layers must be .* layer='odd'.*{why}.*$"):
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


class Twice(tf.keras.layers.Layer):
    """Makes a channel and its double of each unit; `size` says how many units."""

    def __init__(self, size, **options):
        super().__init__(**options)
        self.size = size

    def build(self, input_shape):
        self.kernel = self.add_weight("kernel", shape=(input_shape[-1], self.size))

    def call(self, x):
        return tf.repeat(x @ self.kernel, 2, axis=-1)

    def get_config(self):
        return {**super().get_config(), "size": self.size}


def test_an_entry_says_all_about_a_layer_of_ones_own(monkeypatch):
    def channels(analysis, layer, axes, *shapes):
        made = analysis.new(layer, layer.size, "size")
        analysis.own(layer.kernel, axes[0], made)
        return np.repeat(made, 2)

    def cost(call, following):
        return {"activations": 7, "forward": call.layer.size}

    monkeypatch.setattr(layer_rules, "_REGISTERED", {})
    layer_rules.register(Twice, layer_rules.Kind(channels, cost=cost, role="convolution"))
    layers = tf.keras.layers
    parts = [lambda: layers.Dense(4), lambda: Twice(6, name="twice"), lambda: layers.Dense(2)]
    spec = user_spec(lambda: tf.keras.Sequential([create() for create in parts]), (4,))
    found = check_small_equals_zeroed(spec, training=True)
    assert [group.size for group in found.groups] == [4, 6]
    assert [cost.activations for cost in costs.measure(spec)] == [4, 7, 2]
    scaled = narrowing.create(spec, [4, 6], [0.5, 0.5]).instantiate()
    assert len(scaled.layers_of(layers.Wrapper)) == 1


def test_a_rule_that_returns_another_number_of_channels_is_named(monkeypatch):
    monkeypatch.setattr(layer_rules, "_REGISTERED", {})
    layer_rules.register(Gain, lambda a, layer, axes, *shapes: axes[0][:-1])
    parts = [lambda: tf.keras.layers.Dense(4), lambda: Gain(name="odd")]
    spec = user_spec(lambda: tf.keras.Sequential([create() for create in parts]), (4,))
    with pytest.raises(ValueError, match=r"layer='odd'.*returns 3 channels instead of 4"):
        channel_groups.analyse(spec)


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
