"""The models: exact sizes, and one battery over all names."""

from __future__ import annotations

import subprocess
import sys

import numpy as np
import pytest
import tensorflow as tf

import models
from tests.models.small import GRAY, IMAGE, NARROW, SHAPES, create_small

RESIDUAL = ("resnet20", "resnet18", "preact_resnet18", "wide_resnet16_8")


def draw_batch(name, size=4):
    rng = np.random.default_rng(0)
    shape = (size, *SHAPES.get(name, IMAGE))
    if name == "bilstm":
        return rng.integers(0, 10_000, shape).astype(np.int32)
    return rng.standard_normal(shape).astype(np.float32)


def _count(layers):
    return sum(w.shape.num_elements() for layer in layers for w in layer.trainable_weights)


def _gradients(model, x):
    with tf.GradientTape() as tape:
        loss = tf.reduce_mean(tf.square(model(x, training=True) - 1.0))
    return [tf.convert_to_tensor(g) for g in tape.gradient(loss, model.trainable_variables)]


@pytest.mark.parametrize(
    ("name", "shape", "num_classes", "width", "expected"),
    [
        ("resnet20", IMAGE, 10, 1.0, {0: 272_762, 4: 257_994, 7: 206_346}),
        ("resnet20", IMAGE, 10, 0.45, {0: 52_874}),
        ("resnet20", IMAGE, 10, 0.2, {0: 10_006}),
        ("femnist_cnn", GRAY, 62, 1.0, {0: 6_603_710, 2: 6_551_614, 3: 127_038}),
        ("bilstm", (256,), 2, 1.0, {0: 3_611_137, 1: 1_051_137}),
        ("resnet18", IMAGE, 10, 1.0, {0: 11_173_962}),
        ("resnet18_imagenet", (224, 224, 3), 1000, 1.0, {0: 11_689_512}),
        ("preact_resnet18", IMAGE, 10, 1.0, {0: 11_172_170}),
        ("wide_resnet28_10", IMAGE, 10, 1.0, {0: 36_479_194}),
        ("wide_resnet16_8", IMAGE, 10, 1.0, {0: 10_961_370}),
        ("vgg11", IMAGE, 10, 1.0, {0: 9_225_610}),
        ("four_conv_cnn", GRAY, 10, 1.0, {0: 1_556_874}),
        ("two_conv_cnn", IMAGE, 10, 1.0, {0: 797_962}),
        ("fedpmt_cnn_mnist", GRAY, 10, 1.0, {0: 37_610}),
        ("fedpmt_cnn_cifar10", IMAGE, 10, 1.0, {0: 567_858}),
        ("fedpmt_fcnn", GRAY, 10, 1.0, {0: 515_610}),
        ("mlp_200", GRAY, 10, 1.0, {0: 199_210}),
        ("mlp_100", GRAY, 10, 1.0, {0: 89_610}),
        ("mlp_50_24", GRAY, 10, 1.0, {0: 40_724}),
        ("softmax", GRAY, 10, 1.0, {0: 7_850}),
    ],
)
def test_trainable_parameters(name, shape, num_classes, width, expected):
    """`expected` maps a number of leading blocks removed to the parameters of the others."""
    model = models.create(name, shape, num_classes, width)
    assert {removed: _count(model.layers[removed:]) for removed in expected} == expected


@pytest.mark.parametrize("name", models.NAMES)
def test_blocks_chain_to_the_model_and_gradients_are_finite(name):
    model, x = create_small(name), draw_batch(name)
    names = [block.name for block in model.layers]
    assert len(set(names)) == len(names)
    assert not any(isinstance(block, tf.keras.layers.InputLayer) for block in model.layers)
    assert len({w.name for w in model.weights}) == len(model.weights)
    assert len(model.weights) == sum(len(block.weights) for block in model.layers)
    y = tf.convert_to_tensor(x)
    for block in model.layers:
        y = block(y, training=False) if isinstance(block, tf.keras.Model) else block(y)
        assert y.shape[1:] == block.output_shape[1:]
    np.testing.assert_allclose(y, model(x, training=False), rtol=1e-5, atol=1e-6)
    assert y.shape == (4, 10)
    gradients = _gradients(model, x)
    assert len(gradients) == len(model.trainable_variables)
    assert all(np.isfinite(g).all() for g in gradients)


def test_names_of_blocks():
    names = [block.name for block in create_small("resnet20").layers]
    stages = [f"stage{s}_block{b}" for s in (1, 2, 3) for b in (1, 2, 3)]
    assert names == ["stem", *stages, "head"]
    names = [block.name for block in create_small("femnist_cnn").layers]
    assert names == ["conv1", "conv2", "dense", "classifier"]
    names = [block.name for block in create_small("bilstm").layers]
    assert names == ["embedding", "lstm", "classifier"]


def _train_in_graph(name, kind, x):
    """One training call inside a plain graph; returns gradients and variables before and after."""
    with tf.Graph().as_default():
        model = create_small(name, width=min(0.2, NARROW.get(name, 1)), normalization=kind)
        gradients = tf.function(_gradients)(model, tf.constant(x))
        logits = tf.function(model)(tf.constant(x), training=False)
        with tf.compat.v1.Session() as session:
            session.run(tf.compat.v1.global_variables_initializer())
            before = session.run(model.non_trainable_variables)
            values = session.run(gradients)
            after = session.run(model.non_trainable_variables)
            assert np.isfinite(session.run(logits)).all()
        return [w.name for w in model.weights], values, before, after


@pytest.mark.parametrize(
    ("name", "kind"),
    [
        *((name, "batch") for name in (*RESIDUAL, "vgg11", "four_conv_cnn")),
        ("four_conv_cnn", "static"),
        ("four_conv_cnn", "group"),
        ("four_conv_cnn", "none"),
        ("bilstm", None),
    ],
)
def test_training_inside_a_plain_graph(name, kind):
    names, gradients, before, after = _train_in_graph(name, kind, draw_batch(name))
    assert len(gradients) + len(before) == len(names)
    assert all(np.isfinite(g).all() for g in gradients)
    moved = [not np.array_equal(b, a) for b, a in zip(before, after)]
    assert bool(moved) == (kind in ("batch", "static"))
    assert all(moved) if kind == "batch" else not any(moved)


@pytest.mark.parametrize("name", ["resnet20", "vgg11"])
@pytest.mark.parametrize("kind", ["group", "none"])
def test_without_batch_statistics_nothing_is_tracked(name, kind):
    model, x = create_small(name, width=0.05, normalization=kind), draw_batch(name)
    assert not model.non_trainable_variables
    np.testing.assert_array_equal(model(x, training=True), model(x, training=False))
    assert np.std(model(x)) > 0


@pytest.mark.parametrize("name", ["wide_resnet16_8", "resnet20"])
def test_a_narrow_model_has_the_variables_of_a_wider_one(name):
    narrow, wider = create_small(name, width=0.001), create_small(name, width=0.1)
    assert [w.name for w in narrow.weights] == [w.name for w in wider.weights]


@pytest.mark.parametrize(
    ("name", "epsilon", "limit"),
    [
        ("four_conv_cnn", 1e-5, 1 / np.sqrt(9 * 32)),
        ("preact_resnet18", 1e-5, 1 / np.sqrt(9 * 32)),
        # Keras's: epsilon 1e-3, Glorot's uniform.
        ("resnet20", 1e-3, np.sqrt(6 / (9 * 16 + 9 * 16))),
        ("wide_resnet16_8", 1e-3, np.sqrt(6 / (9 * 64 + 9 * 64))),
    ],
)
def test_models_have_the_defaults_of_their_papers_frameworks(name, epsilon, limit):
    model = models.create(name, IMAGE, 10, 1.0 if name == "resnet20" else 0.5)
    kind = tf.keras.layers.BatchNormalization
    norms = [x for x in model.submodules if isinstance(x, kind)]
    assert {x.epsilon for x in norms} == {epsilon}
    kernels = [w.numpy() for w in model.trainable_weights if len(w.shape) == 4]
    kernel = next(k for k in kernels[1:] if k.shape[0] == 3 and k.shape[2] >= 16)
    assert 0.98 * limit < np.abs(kernel).max() <= limit


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("x", IMAGE, 10), r"model must be one of \['bilstm', .*\]\. Received: model='x'"),
        (("mlp_200", (), 10), r"input_shape must hold .* Received: input_shape=\(\)"),
        (("mlp_200", (28, 0), 10), r"input_shape must hold .* Received: input_shape=\(28, 0\)"),
        (("mlp_200", GRAY, 1), r"num_classes must be at least 2\. Received: num_classes=1"),
        (("mlp_200", GRAY, 10, 0.0), r"width must be in \(0, 1\]\. Received: width=0\.0"),
        (("mlp_200", GRAY, 10, 1.5), r"width must be in \(0, 1\]\. Received: width=1\.5"),
        (("mlp_200", GRAY, 10, float("nan")), r"width must be .* Received: width=nan"),
        (
            ("mlp_200", GRAY, 10, 1.0, "batch"),
            r"normalization of mlp_200 must be one of \['none'\]\. Received: normalization='batch'",
        ),
        (
            ("resnet20", IMAGE, 10, 1.0, "layer"),
            r"normalization of resnet20 must be one of .* Received: normalization='layer'",
        ),
        (("bilstm", IMAGE, 2), r"input_shape of bilstm must be \(length,\)\. Received: .*"),
    ],
)
def test_errors(arguments, message):
    with pytest.raises(ValueError, match=f"^{message}$"):
        models.create(*arguments)


def test_the_package_does_not_import_tensorflow():
    code = "import sys, models; sys.exit('tensorflow' in sys.modules or not models.NAMES)"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0
