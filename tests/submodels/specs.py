"""Small versions of the library's models, and users' own; and what a narrow model must equal."""

import functools

import numpy as np
import tensorflow as tf

import models
from tff_partial.core import keras_compat
from tff_partial.core import model as model_spec
from tff_partial.submodels import groups as channel_groups
from tff_partial.submodels import narrowing, slicing

SHAPES = {"bilstm": (6,)}
# Small enough to be built many times.
WIDTHS = {"wide_resnet28_10": 0.1, "wide_resnet16_8": 0.1, "femnist_cnn": 0.25, "vgg11": 0.25}
WIDTHS |= {"resnet18": 0.25, "preact_resnet18": 0.25, "resnet18_imagenet": 0.1}


@functools.cache
def spec_of(name, width=None, normalization=None):
    shape = SHAPES.get(name, (16, 16, 2))
    options = {"vocabulary": 20, "embedding": 12, "units": 10} if name == "bilstm" else {}
    width = WIDTHS.get(name, 1.0) if width is None else width
    create = functools.partial(models.create, name, shape, 5, width, normalization, **options)
    return model_spec.ModelSpec(create, shape, "int32" if name == "bilstm" else "float32")


def user_spec(create, shape=(8, 8, 3)):
    return model_spec.ModelSpec(create, shape)


def block_spec(create_block, shape=(4, 4, 3)):
    """A functional model, or a layer, as a block before a dense layer."""

    def create():
        last = [tf.keras.layers.Flatten(), tf.keras.layers.Dense(3, name="logits")]
        return tf.keras.Sequential([create_block(), *last])

    return user_spec(create, shape)


def functional(shape, body):
    """Return what creates the functional model from an input to what `body` makes of it."""

    def create():
        x = tf.keras.Input(shape)
        return tf.keras.Model(x, body(x))

    return create


def random_kept(groups, seed=0, halves=True):
    """Half of the channels of each group, or any number of them."""
    rng = np.random.default_rng(seed)
    sizes = [max(1, g.size // 2) if halves else rng.integers(1, g.size + 1) for g in groups]
    return [np.sort(rng.permutation(g.size)[:k]).astype(np.int32) for g, k in zip(groups, sizes)]


def random_value(rng, shape):
    """Of both signs for kernels; positive for what may be a variance."""
    value = rng.uniform(0.2, 1.0, shape)
    return (value * rng.choice([-0.4, 0.4], shape) if len(shape) > 1 else value).astype(np.float32)


def check_small_equals_zeroed(spec, seed=0, halves=True, training=False):
    """A small model's logits are those of the full one whose other channels are all 0.

    With `training` the same holds for its gradients and moving statistics, hence for a step. Layer
    normalisation is over the kept channels in both.
    """
    channels, full = channel_groups.analyse(spec), spec.instantiate()
    kept = random_kept(channels.groups, seed, halves)
    small = narrowing.create(spec, [len(k) for k in kept]).instantiate()
    rng = np.random.default_rng(seed + 1)
    values = [random_value(rng, v.shape) for v in (*full.trainable, *full.statistics)]
    extracted = slicing.extract(channels, values, kept)
    zeroed, _ = slicing.restore(channels, extracted, kept)
    for model, given in ((small, extracted), (full, zeroed)):
        for variable, value in zip(model.variables, given):
            variable.assign(value)
    shape = [3, *spec.input_shape]
    x = rng.integers(0, 20, shape) if spec.input_dtype == "int32" else rng.normal(size=shape)
    x = tf.constant(x, spec.input_dtype)
    with _normalising_kept(channels, full, kept):
        expected = full.forward(x, training=False).numpy()
        assert np.abs(expected).max() > 1e-3
        assert_close(small.forward(x, training=False), expected)
        if training:
            _check_step(channels, kept, x, small, full)
    return channels


def _check_step(channels, kept, x, small, full):
    gradients = []
    for model in (small, full):
        with tf.GradientTape() as tape:
            loss = tf.reduce_sum(tf.math.softplus(model.forward(x, training=True)))
        found = tape.gradient(loss, model.trainable, unconnected_gradients="zero")
        gradients.append([tf.convert_to_tensor(gradient) for gradient in found])
    expected = slicing.extract(channels, [*gradients[1], *full.statistics], kept)
    for actual, value in zip([*gradients[0], *small.statistics], expected):
        assert_close(actual, value)


def assert_close(actual, expected):
    expected = np.asarray(expected)
    scale = np.abs(expected).max() if expected.size else 0.0
    np.testing.assert_allclose(actual, expected, rtol=2e-3, atol=1e-4 * scale + 1e-5)


def _normalising_kept(channels, full, kept):
    """Let layer normalisations of the full model take their moments over the kept channels."""
    own = channel_groups.layers_of(channels.template.blocks)
    axes = {
        id(layer): channels.outputs.get(id(one), (None,))[-1]
        for layer, one in zip(channel_groups.layers_of(full.blocks), own)
    }

    def create(layer):
        axis = axes[id(layer)]
        mask = np.float32(1.0) if axis is None else slicing._flags(channels, axis, kept)
        is_layer = isinstance(layer, tf.keras.layers.LayerNormalization)

        def call(x):
            over = [-1] if is_layer else list(range(1, len(x.shape)))
            count = tf.reduce_sum(mask * tf.ones_like(x), over, keepdims=True)
            mean = tf.reduce_sum(x * mask, over, keepdims=True) / count
            variance = tf.reduce_sum(((x - mean) * mask) ** 2, over, keepdims=True) / count
            normal = (x - mean) * mask * tf.math.rsqrt(variance + layer.epsilon)
            return normal * layer.gamma + layer.beta

        return call

    layers = [x for x in channel_groups.layers_of(full.blocks) if _mixes_channels(x)]
    return keras_compat.replaced_calls(layers, create)


def _mixes_channels(layer):
    """Whether a normalisation takes its moments over all channels."""
    one_group = isinstance(layer, tf.keras.layers.GroupNormalization) and layer.groups == 1
    return one_group or isinstance(layer, tf.keras.layers.LayerNormalization)
