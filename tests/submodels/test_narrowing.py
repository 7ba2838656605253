"""Models made again with fewer channels."""

import numpy as np
import pytest
import tensorflow as tf

import models
from tests.submodels import zoo
from tests.submodels.nets import NETS
from tests.submodels.specs import (
    WIDTHS,
    block_spec,
    check_small_equals_zeroed,
    functional,
    random_kept,
    spec_of,
    user_spec,
)
from tff_partial.submodels import groups as channel_groups
from tff_partial.submodels import narrowing, slicing


@pytest.mark.parametrize("name", models.NAMES)
def test_a_small_model_is_the_full_one_without_the_other_channels(name):
    check_small_equals_zeroed(spec_of(name))


@pytest.mark.parametrize("seed", range(8))
def test_a_step_of_a_small_random_model_is_that_of_the_full_one(seed):
    spec = block_spec(functional((4, 4, 3), zoo.random_body(seed)))
    check_small_equals_zeroed(spec, seed, halves=False, training=True)


def sizes_of(channels, rate, rounding="ceil", **options):
    return narrowing.sizes(channels, narrowing.rates(channels, rate, **options), rounding)


@pytest.mark.parametrize("name", [name for name in models.NAMES if name not in WIDTHS])
def test_a_small_model_has_the_shapes_of_the_builder_at_that_width(name, rate=0.3):
    spec = spec_of(name)
    sizes = sizes_of(channel_groups.analyse(spec), rate, "floor")
    built = spec_of(name, width=rate)
    scalers = [rate] * len(sizes)
    assert narrowing.create(spec, sizes, scalers).weights_type == built.weights_type


@pytest.mark.parametrize("normalization", ["static", "group", "none"])
def test_other_normalizations_are_sliced_too(normalization):
    spec = spec_of("four_conv_cnn", 0.25, normalization)
    sizes = sizes_of(channel_groups.analyse(spec), 0.5)
    small, built = narrowing.create(spec, sizes), spec_of("four_conv_cnn", 0.125, normalization)
    assert small.weights_type == built.weights_type
    groups = [
        [
            layer.groups
            for layer in model.instantiate().layers_of(tf.keras.layers.GroupNormalization)
        ]
        for model in (small, built)
    ]
    assert groups[0] == groups[1]


def create_group_norm(groups):
    layers = tf.keras.layers
    norm = layers.GroupNormalization(groups, name="norm")
    return tf.keras.Sequential(
        [layers.Conv2D(6, 3), norm, layers.GlobalMaxPooling2D(), layers.Dense(4)]
    )


@pytest.mark.parametrize("groups", [1, 2, 3, 6, -1])
def test_a_model_that_keeps_all_its_channels_is_the_full_one(groups):
    spec = user_spec(lambda: create_group_norm(groups))
    full, same = spec.instantiate(), narrowing.create(spec, [6]).instantiate()
    for variable, value in zip(same.trainable, full.trainable):
        variable.assign(value)
    x = tf.random.stateless_normal([2, 8, 8, 3], (0, 1), mean=1.0)
    expected = full.forward(x, training=True).numpy()
    assert np.abs(expected).max() > 0.1
    np.testing.assert_array_equal(same.forward(x, training=True), expected)


@pytest.mark.parametrize(
    ("groups", "kept", "expected"), [(6, 3, 3), (6, 1, 1), (3, 4, 2), (1, 3, 1)]
)
def test_one_channel_a_group_remains_so_in_a_small_model(groups, kept, expected):
    small = narrowing.create(user_spec(lambda: create_group_norm(groups)), [kept])
    (norm,) = small.instantiate().layers_of(tf.keras.layers.GroupNormalization)
    assert norm.groups == expected


def create_mixed():
    """What a user may write: nested blocks, depthwise and separable convolutions, a bottleneck."""
    layers = tf.keras.layers
    inputs = tf.keras.Input((8, 8, 6))
    inner = tf.keras.Sequential(
        [
            tf.keras.Input((8, 8, 6)),
            layers.DepthwiseConv2D(3, padding="same"),
            layers.SeparableConv2D(10, 3, padding="same"),
            layers.LeakyReLU(),
            layers.Conv2D(6, 1),
        ]
    )
    block = tf.keras.Model(inputs, layers.Average()([inputs, inner(inputs)]))
    return tf.keras.Sequential(
        [
            layers.Conv2D(6, 3, padding="same", activation="relu"),
            block,
            layers.LayerNormalization(),
            layers.PReLU(),
            layers.Conv2DTranspose(5, 2, strides=2),
            layers.GlobalMaxPooling2D(),
            layers.Dense(7, activation="tanh"),
            layers.Dropout(0.5),
            layers.Dense(3),
        ]
    )


def test_a_users_own_model_is_sliced():
    spec = user_spec(create_mixed)
    channels = channel_groups.analyse(spec)
    assert [g.size for g in channels.groups] == [6, 10, 5, 7]
    small = narrowing.create(spec, [3, 5, 2, 4])
    x = tf.zeros([2, 8, 8, 3])
    assert small.instantiate().forward(x, training=True).shape == (2, 3)
    kept = random_kept(channels.groups)
    full = spec.instantiate()
    found = slicing.extract(channels, [v.numpy() for v in full.trainable], kept)
    shapes = [
        v.shape for v in narrowing.create(spec, [len(k) for k in kept]).instantiate().trainable
    ]
    assert [f.shape for f in found] == shapes


def test_a_reshape_is_narrowed():
    def create():
        layers = tf.keras.layers
        parts = [layers.Conv2D(4, 3, padding="same"), layers.Reshape((64, 4)), layers.ReLU()]
        return tf.keras.Sequential([*parts, layers.Reshape((256,)), layers.Dense(2)])

    check_small_equals_zeroed(user_spec(create))


@pytest.mark.parametrize(
    ("rate", "rounding", "expected"),
    [(0.5, "ceil", [4, 3]), (0.5, "floor", [3, 3]), (0.01, "floor", [1, 1]), (1.0, "ceil", [7, 6])],
)
def test_sizes(rate, rounding, expected):
    def create():
        return tf.keras.Sequential([tf.keras.layers.Dense(m, name=f"fc{m}") for m in (7, 6, 3)])

    channels = channel_groups.analyse(user_spec(create, (4,)))
    assert sizes_of(channels, rate, rounding) == expected
    by_layer = sizes_of(channels, rate, rounding, layer_rates={"fc6": 0.5})
    assert by_layer == [expected[0], 3 if rate < 1 else 6]
    with pytest.raises(ValueError, match="Received: \\['fc9'\\]"):
        sizes_of(channels, rate, rounding, layer_rates={"fc9": 0.5})


def test_rates_of_layers_may_name_blocks():
    channels = channel_groups.analyse(spec_of("fedpmt_fcnn", 0.5))
    layers, blocks = (
        narrowing.rates(channels, 0.5, layer_rates={name: 0.25})
        for name in (channels.groups[0].layers[0], channels.template.blocks[0].name)
    )
    assert layers == blocks == [0.25, *[0.5] * (len(channels.groups) - 1)]


def test_dense_only_keeps_convolutions_whole():
    channels = channel_groups.analyse(spec_of("femnist_cnn", 0.25))
    assert sizes_of(channels, 0.5, dense_only=True) == [8, 16, 256]


def test_the_scaler_leaves_layers_alone_that_are_kept_whole():
    spec = spec_of("femnist_cnn", 0.25)
    shares = narrowing.rates(channel_groups.analyse(spec), 0.5, dense_only=True)
    for scalers, expected in ((shares, 0), ([0.5] * 3, 2)):
        small = narrowing.create(spec, [8, 16, 256], scalers).instantiate()
        assert len(small.layers_of(tf.keras.layers.Wrapper)) == expected


@pytest.mark.parametrize("normalization", ["batch", "none"])
def test_the_scaler_divides_in_training_only(normalization):
    spec = spec_of("four_conv_cnn", 0.0625, normalization)
    sizes = [g.size for g in channel_groups.analyse(spec).groups]
    plain = narrowing.create(spec, sizes).instantiate()
    scaled = narrowing.create(spec, sizes, [0.25] * len(sizes)).instantiate()
    full = spec.instantiate()
    for model in (plain, scaled):
        for v, w in zip((*model.trainable, *model.statistics), (*full.trainable, *full.statistics)):
            v.assign(w)
    x = tf.constant(np.random.default_rng(0).normal(size=(3, 16, 16, 2)), tf.float32)
    np.testing.assert_array_equal(scaled.forward(x, False), plain.forward(x, False))
    ratio = np.abs(scaled.forward(x, True)).max() / np.abs(plain.forward(x, True)).max()
    # Four convolutions, each times 4, if no normalisation undoes it.
    assert (ratio > 100) if normalization == "none" else (0.9 < ratio < 1.5)


def test_padded_layers_make_what_is_kept_and_receive_all():
    spec = NETS["conv"][1]
    channels = channel_groups.analyse(spec)
    padded = narrowing.create_padded(spec, [3, 2])
    with tf.Graph().as_default():
        shapes = [tuple(v.shape) for v in padded.instantiate().trainable]
        whole = [v.shape for v in spec.instantiate().trainable]
    assert shapes == [(3, 3, 2, 3), (3,), (3, 3, 5, 3), (3,), (3, 3, 5, 2), (2,), (96, 4), (4,)]
    made = channel_groups.made(channels)
    kept = [np.arange(3), np.arange(2)]
    values = slicing.extract(made, [tf.zeros(shape) for shape in whole], kept)
    assert [tuple(value.shape) for value in values] == shapes
