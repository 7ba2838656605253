"""A dense network and one of convolutions, in Keras and in the NumPy reference."""

import numpy as np
import tensorflow as tf

from tests.references import submodels as reference
from tff_partial.core import model as model_spec

NAMES = {
    "dense": ("fc1", "fc2", "out"),
    "conv": ("conv1", "conv2", "conv3", "out"),
}


def create_dense():
    layers = tf.keras.layers
    hidden = [layers.Dense(m, "relu", name=f"fc{i}") for i, m in enumerate((7, 6), 1)]
    return tf.keras.Sequential([*hidden, layers.Dense(4, name="out")])


def create_conv():
    layers = tf.keras.layers

    def conv(name, size):
        return layers.Conv2D(size, 3, padding="same", name=name)

    a = tf.keras.Input((4, 4, 5))
    added = layers.Add()([a, conv("conv2", 5)(a)])
    residual = tf.keras.Model(a, layers.ReLU()(added), name="residual")
    return tf.keras.Sequential(
        [
            tf.keras.Sequential([tf.keras.Input((4, 4, 2)), conv("conv1", 5), layers.ReLU()]),
            residual,
            conv("conv3", 6),
            layers.ReLU(),
            layers.Flatten(),
            layers.Dense(4, name="out"),
        ]
    )


NETS = {
    "dense": (reference.DENSE, model_spec.ModelSpec(create_dense, (5,), seed=3)),
    "conv": (reference.CONV, model_spec.ModelSpec(create_conv, (4, 4, 2), seed=3)),
}


def client_data(net, seed=0):
    """Three clients with 11, 14 and 17 examples; the first two lack a class each."""
    rng = np.random.default_rng(seed)
    shape = NETS[net][1].input_shape
    classes = ([0, 1, 2], [1, 2, 3], [0, 1, 2, 3])
    return [
        (rng.normal(size=(n, *shape)).astype(np.float32), rng.choice(c, n).astype(np.int32))
        for n, c in zip((11, 14, 17), classes)
    ]


def as_dict(net, flat):
    names = [f"{layer}/{kind}" for layer in NAMES[net] for kind in ("kernel", "bias")]
    return dict(zip(names, flat))
