"""Models that are built without running their layers: the same in everything."""

import numpy as np
import pytest
import tensorflow as tf

import models
from tests.models.small import GRAY, create_small
from tff_partial.core import keras_compat, keras_shapes
from tff_partial.core.model import ModelSpec


def _described(create, quick):
    """Variables with their initial values, and each use of a layer with its output."""
    with tf.Graph().as_default(), keras_compat.tf2_behavior(), keras_compat.seeded(3):
        if quick:
            with keras_shapes.computed():
                model = create()
        else:
            model = create()
        with tf.compat.v1.Session() as session:
            session.run(tf.compat.v1.global_variables_initializer())
            values = session.run({v.name: v for b in model.layers for v in b.variables})
        uses = [
            (layer.name, [(x.shape, x.dtype) for x in tf.nest.flatten(node.outputs)])
            for layer in model._flatten_layers()
            for node in layer._inbound_nodes
        ]
        return values, uses


def _check_same(create):
    values, uses = _described(create, quick=False)
    quick_values, quick_uses = _described(create, quick=True)
    assert quick_uses == uses
    assert [*quick_values] == [*values]
    for name, value in values.items():
        np.testing.assert_array_equal(quick_values[name], value)


# Others are made by the same builders.
CASES = [
    *(("four_conv_cnn", kind) for kind in models.NORMALIZATIONS),
    *((name, None) for name in ("bilstm", "fedpmt_fcnn", "femnist_cnn", "two_conv_cnn", "vgg11")),
    *((name, "batch") for name in ("resnet20", "preact_resnet18", "wide_resnet16_8")),
    ("preact_resnet18", "static"),
]


@pytest.mark.parametrize(("name", "kind"), CASES)
def test_our_models_are_the_same(name, kind):
    _check_same(lambda: create_small(name, normalization=kind))


class Doubled(tf.keras.layers.Dense):
    """A layer whose shape is not what its base class says."""

    def call(self, inputs):
        return tf.concat([super().call(inputs)] * 2, axis=-1)


def _sequential(*layers):
    return tf.keras.Sequential([tf.keras.Input((6, 4)), *layers])


@pytest.mark.parametrize(
    "layers",
    [
        lambda: [Doubled(3, name="doubled"), tf.keras.layers.Dense(2, name="dense")],
        lambda: [tf.keras.layers.Lambda(lambda x: x[:, :2], name="cut")],
        lambda: [tf.keras.layers.Masking(name="mask"), tf.keras.layers.LSTM(3, name="lstm")],
        lambda: [tf.keras.Sequential([Doubled(3, name="doubled")], name="inner")],
        lambda: [tf.keras.layers.Dense(2, name="dense", dtype="float64")],
    ],
)
def test_models_with_other_layers_are_the_same(layers):
    _check_same(lambda: _sequential(*layers()))


def test_squeeze_and_excite_is_the_same():
    def create():
        layers, inputs = tf.keras.layers, tf.keras.Input((6, 6, 4))
        x = layers.Activation("swish")(layers.DepthwiseConv2D(3, strides=2, name="deep")(inputs))
        y = layers.Reshape((1, 1, 4))(layers.GlobalAveragePooling2D()(x))
        y = layers.Conv2D(4, 1, activation="sigmoid", name="excite")(y)
        return tf.keras.Model(inputs, layers.Multiply()([x, y]))

    _check_same(create)


def test_known_layers_are_not_run(monkeypatch):
    def refuse(*args, **kwargs):
        raise AssertionError("the layer was called")

    monkeypatch.setattr(tf.keras.layers.LSTM, "call", refuse)
    with keras_shapes.computed():
        create_small("bilstm")
    with pytest.raises(AssertionError, match="was called"):
        create_small("bilstm")


def test_a_graph_has_no_variables_but_the_model_s():
    spec = ModelSpec(lambda: models.create("femnist_cnn", GRAY, 10, 0.1), GRAY)
    with tf.Graph().as_default() as graph:
        model = spec.instantiate()
        everything = graph.get_collection(tf.compat.v1.GraphKeys.GLOBAL_VARIABLES)
    seed = [model._step_seed]
    assert {v.name for v in everything} == {v.name for v in [*model.variables, *seed]}


def test_a_layer_without_output_fails_as_ever():
    with keras_shapes.computed(), pytest.raises(ValueError, match="[Nn]egative dimension"):
        models.create("two_conv_cnn", (4, 4, 3), 10)


@pytest.mark.parametrize("name", models.NAMES)
def test_our_models_pass_the_check(name):
    """`experiments.bundled` leaves it out."""
    architecture = models.ARCHITECTURES[name]
    shape = (8,) if name == "bilstm" else architecture.input_shape
    dtype = "int32" if name == "bilstm" else "float32"
    width = 0.05 if "resnet" in name else 0.2
    ModelSpec(lambda: models.create(name, shape, 10, width), shape, dtype)
