"""Models whose costs the tests know: the papers' and users' own."""

import functools

import tensorflow as tf

import models
from tff_partial import costs, tiers
from tff_partial.core import model as model_spec
from tff_partial.experiments import bundled


@functools.cache
def spec(name, width=1.0):
    architecture = models.ARCHITECTURES[name]
    return bundled.create_model(name, architecture.input_shape, architecture.num_classes, width)


def cut_of(tier, model, batch_size):
    return costs.cut_of(tiers.create(tier), model, batch_size)


def own(*layers, shape=(5,), **options):
    """A user's model; `layers` make its layers, each time in the graph that needs them."""
    return model_spec.ModelSpec(
        lambda: tf.keras.Sequential([layer() for layer in layers]), shape, **options
    )


def dense(units, name=None):
    return lambda: tf.keras.layers.Dense(units, name=name)
