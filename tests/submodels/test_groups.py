"""Channel groups of models, and models made again with fewer channels."""

import functools

import numpy as np
import pytest
import tensorflow as tf

import models
from tff_partial.core import model as model_spec
from tff_partial.submodels import groups as channel_groups
from tff_partial.submodels import layer_rules, narrowing, slicing

SHAPES = {"bilstm": (6,)}
# Small enough to be built many times.
WIDTHS = {"wide_resnet28_10": 0.1, "wide_resnet16_8": 0.1, "femnist_cnn": 0.25, "vgg11": 0.25}
WIDTHS |= {"resnet18": 0.25, "preact_resnet18": 0.25}


@functools.cache
def spec_of(name, width=None, normalization=None):
    shape = SHAPES.get(name, (16, 16, 2))
    options = {"vocabulary": 20, "embedding": 12, "units": 10} if name == "bilstm" else {}
    width = WIDTHS.get(name, 1.0) if width is None else width
    create = functools.partial(models.create, name, shape, 5, width, normalization, **options)
    return model_spec.ModelSpec(create, shape, "int32" if name == "bilstm" else "float32")


def user_spec(create, shape=(8, 8, 3)):
    return model_spec.ModelSpec(create, shape)


def random_kept(groups, seed=0):
    rng = np.random.default_rng(seed)
    sizes = [max(1, g.size // 2) for g in groups]
    return [np.sort(rng.permutation(g.size)[:k]).astype(np.int32) for g, k in zip(groups, sizes)]


def random_value(rng, shape):
    """Of both signs for kernels; positive for what may be a variance."""
    value = rng.uniform(0.2, 1.0, shape)
    return (value * rng.choice([-0.4, 0.4], shape) if len(shape) > 1 else value).astype(np.float32)


def check_small_equals_zeroed(spec):
    """A small model's logits are those of the full one whose other channels are all 0."""
    channels, full = channel_groups.analyse(spec), spec.instantiate()
    kept = random_kept(channels.groups)
    small = narrowing.create(spec, [len(k) for k in kept]).instantiate()
    rng = np.random.default_rng(1)
    values = [random_value(rng, v.shape) for v in (*full.trainable, *full.statistics)]
    extracted = slicing.extract(channels, values, kept)
    zeroed, _ = slicing.restore(channels, extracted, kept)
    for variable, value in zip((*small.trainable, *small.statistics), extracted):
        variable.assign(value)
    for variable, value in zip((*full.trainable, *full.statistics), zeroed):
        variable.assign(value)
    shape = [3, *spec.input_shape]
    x = rng.integers(0, 20, shape) if spec.input_dtype == "int32" else rng.normal(size=shape)
    x = tf.constant(x, spec.input_dtype)
    expected = full.forward(x, training=False).numpy()
    assert np.abs(expected).max() > 1e-3
    np.testing.assert_allclose(
        small.forward(x, training=False), expected, rtol=2e-4, atol=1e-5 * np.abs(expected).max()
    )


@pytest.mark.parametrize("name", models.NAMES)
def test_a_small_model_is_the_full_one_without_the_other_channels(name):
    check_small_equals_zeroed(spec_of(name))


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


def test_layers_whose_outputs_are_added_share_a_group():
    groups = channel_groups.analyse(spec_of("resnet20")).groups
    shared = [group for group in groups if len(group.layers) > 1]
    assert [len(group.layers) for group in shared] == [4, 4, 4]
    assert set(shared[1].layers) == {
        "stage2_block1_conv2",
        "stage2_block1_conv_shortcut",
        "stage2_block2_conv2",
        "stage2_block3_conv2",
    }


def test_axes_of_a_flatten_repeat_its_channels():
    channels = channel_groups.analyse(spec_of("femnist_cnn", 0.25))
    assert [(g.size, g.dense) for g in channels.groups] == [(8, False), (16, False), (512, True)]
    assert channels.axes[4] == (channel_groups.Axis(1, 16), channel_groups.Axis(2))


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


def test_channels_that_are_added_to_the_input_are_kept_whole():
    def create():
        x = tf.keras.Input((8, 8, 3))
        y = tf.keras.layers.Conv2D(3, 3, padding="same")(x)
        block = tf.keras.Model(x, tf.keras.layers.Add()([x, y]))
        flat = [tf.keras.layers.Flatten(), tf.keras.layers.Dense(2)]
        return tf.keras.Sequential([block, *flat])

    channels = channel_groups.analyse(user_spec(create))
    assert channels.groups == ()
    assert channels.axes[0] == (None,) * 4


def test_a_reshape_is_narrowed():
    def create():
        layers = tf.keras.layers
        parts = [layers.Conv2D(4, 3, padding="same"), layers.Reshape((64, 4)), layers.ReLU()]
        return tf.keras.Sequential([*parts, layers.Reshape((256,)), layers.Dense(2)])

    check_small_equals_zeroed(user_spec(create))


class Reversed(tf.keras.layers.Conv2D):
    def call(self, x):
        return super().call(x)[..., ::-1]


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


def test_what_is_computed_after_the_last_layer_is_an_error():
    class Twice(tf.keras.layers.Layer):
        def __init__(self):
            super().__init__(name="odd")
            self.dense = tf.keras.layers.Dense(2)

        def call(self, x):
            return 2.0 * self.dense(x)

    def create():
        return tf.keras.Sequential([tf.keras.layers.Dense(3), Twice()])

    with pytest.raises(ValueError, match="Received: layer='odd'.*its output"):
        channel_groups.analyse(user_spec(create, (6,)))


def test_an_activation_may_be_used_again():
    def create():
        relu = tf.keras.layers.ReLU()
        x = tf.keras.Input((6,))
        y = relu(tf.keras.layers.Dense(4)(relu(tf.keras.layers.Dense(5)(x))))
        return tf.keras.Sequential([tf.keras.Model(x, y), tf.keras.layers.Dense(2)])

    channels = channel_groups.analyse(user_spec(create, (6,)))
    assert [group.size for group in channels.groups] == [5, 4]
    scored = [channels.outputs[i].group for i in channels.scored]
    assert scored == [0, 1]


def test_operations_outside_of_layers_are_an_error_that_names_the_next_layer():
    class Adds(tf.keras.layers.Layer):
        def __init__(self):
            super().__init__()
            self.conv = tf.keras.layers.Conv2D(4, 1, name="inner")
            self.after = tf.keras.layers.ReLU(name="after")

        def call(self, x):
            return self.after(self.conv(x) + 1.0)

    def create():
        return tf.keras.Sequential([Adds(), tf.keras.layers.Flatten(), tf.keras.layers.Dense(2)])

    with pytest.raises(
        ValueError, match="Received: layer='after'.*not the output of a Keras layer"
    ):
        channel_groups.analyse(user_spec(create))


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
