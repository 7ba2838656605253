"""Small versions of the library's models, and users' own."""

import functools

import numpy as np
import tensorflow as tf

import models
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
