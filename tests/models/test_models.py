"""The models: exact sizes, and one battery over all names."""

from __future__ import annotations

import subprocess
import sys

import numpy as np
import pytest
import tensorflow as tf

import models
from models import blocks, normalization

IMAGE = (32, 32, 3)
GRAY = (28, 28, 1)
SHAPES = {
    "vgg11": GRAY,
    "femnist_cnn": GRAY,
    "fedpmt_cnn_mnist": GRAY,
    "fedpmt_fcnn": GRAY,
    "mlp_200": GRAY,
    "mlp_100": GRAY,
    "bilstm": (8,),
}
# These are too large for a quick test at half width.
NARROW = {"resnet18": 0.1, "preact_resnet18": 0.1, "wide_resnet28_10": 0.05, "wide_resnet16_8": 0.1}
RESIDUAL = ("resnet20", "resnet18", "preact_resnet18", "wide_resnet16_8")


def _create(name, num_classes=10, width=None, normalization=None):
    width = NARROW.get(name, 0.5) if width is None else width
    return models.create(name, SHAPES.get(name, IMAGE), num_classes, width, normalization)


def _batch(name, size=4):
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
        ("softmax", GRAY, 10, 1.0, {0: 7_850}),
    ],
)
def test_trainable_parameters(name, shape, num_classes, width, expected):
    """`expected` maps a number of leading blocks removed to the parameters of the others."""
    model = models.create(name, shape, num_classes, width)
    assert {removed: _count(model.layers[removed:]) for removed in expected} == expected


@pytest.mark.parametrize("name", models.NAMES)
def test_blocks_chain_to_the_model_and_gradients_are_finite(name):
    model, x = _create(name), _batch(name)
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


def test_variables_have_the_same_names_inside_a_graph():
    with tf.Graph().as_default():
        names = [w.name for w in _create("wide_resnet16_8").weights]
    assert names == [w.name for w in _create("wide_resnet16_8").weights]


def test_names_of_blocks():
    names = [block.name for block in _create("resnet20").layers]
    stages = [f"stage{s}_block{b}" for s in (1, 2, 3) for b in (1, 2, 3)]
    assert names == ["stem", *stages, "head"]
    names = [block.name for block in _create("femnist_cnn").layers]
    assert names == ["conv1", "conv2", "dense", "classifier"]
    names = [block.name for block in _create("bilstm").layers]
    assert names == ["embedding", "lstm", "classifier"]


def _train_in_graph(name, kind, x):
    """One training call inside a plain graph; returns gradients and variables before and after."""
    with tf.Graph().as_default():
        model = _create(name, width=min(0.2, NARROW.get(name, 1)), normalization=kind)
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
    names, gradients, before, after = _train_in_graph(name, kind, _batch(name))
    assert len(gradients) + len(before) == len(names)
    assert all(np.isfinite(g).all() for g in gradients)
    moved = [not np.array_equal(b, a) for b, a in zip(before, after)]
    assert bool(moved) == (kind in ("batch", "static"))
    assert all(moved) if kind == "batch" else not any(moved)


@pytest.mark.parametrize("name", ["resnet20", "vgg11"])
@pytest.mark.parametrize("kind", ["group", "none"])
def test_without_batch_statistics_nothing_is_tracked(name, kind):
    model, x = _create(name, width=0.05, normalization=kind), _batch(name)
    assert not model.non_trainable_variables
    np.testing.assert_array_equal(model(x, training=True), model(x, training=False))
    assert np.std(model(x)) > 0


def test_static_batch_normalization():
    x = tf.random.stateless_normal((8, 4, 4, 3), (0, 1), mean=5.0, stddev=2.0)
    batch, static = (normalization.layers(kind, "n", 3)[0] for kind in ("batch", "static"))
    np.testing.assert_array_equal(batch(x, training=True), static(x, training=True))
    assert np.all(batch.moving_mean.numpy() != 0)
    assert np.all(static.moving_mean.numpy() == 0)
    assert np.all(static.moving_variance.numpy() == 1)
    mean, variance = tf.nn.moments(x, (0, 1, 2))
    static.moving_mean.assign(mean)
    static.moving_variance.assign(variance)
    expected = (x - mean) / tf.sqrt(variance + 1e-3)
    np.testing.assert_allclose(static(x, training=False), expected, atol=1e-5)


def test_groups_divide_the_channels():
    sizes = {1: 1, 2: 1, 3: 1, 7: 1, 12: 6, 14: 7, 16: 8, 28: 14, 64: 32, 512: 32}
    assert {channels: normalization.groups(channels) for channels in sizes} == sizes


def test_widths_round_down_without_floating_error():
    assert [blocks.scale(0.45, m) for m in (16, 32, 64)] == [7, 14, 28]
    assert [blocks.scale(0.2, m) for m in (16, 32, 64)] == [3, 6, 12]
    assert (blocks.scale(0.29, 100), blocks.scale(0.001, 16), blocks.scale(1.0, 512)) == (
        29,
        1,
        512,
    )


@pytest.mark.parametrize("name", ["wide_resnet16_8", "resnet20"])
def test_a_narrow_model_has_the_variables_of_a_wider_one(name):
    narrow, wider = _create(name, width=0.001), _create(name, width=0.1)
    assert [w.name for w in narrow.weights] == [w.name for w in wider.weights]


def test_resnet20_starts_as_its_shortcuts():
    for block in _create("resnet20").layers[1:-1]:
        assert np.all(block.get_layer(f"{block.name}_norm2").gamma.numpy() == 0)
        assert np.all(block.get_layer(f"{block.name}_norm1").gamma.numpy() == 1)


def _normalized(x, epsilon):
    """Batch norm of a batch [n, h, w, c] with gamma 1 and beta 0."""
    return (x - x.mean((0, 1, 2))) / np.sqrt(x.var((0, 1, 2)) + epsilon)


def _correlated(x, kernel, starts):
    """A convolution with stride 2 whose windows start at these rows and columns of `x`."""
    size = kernel.shape[0]
    rows = [[x[:, i : i + size, j : j + size] for j in starts] for i in starts]
    return np.stack(
        [np.stack([np.einsum("nhwc,hwcd->nd", w, kernel) for w in row], 1) for row in rows], 1
    )


def test_four_conv_cnn_is_that_of_heterofls_code():
    """Pooling drops the last row of 7, epsilon is 1e-5; in NumPy, from the first block's input."""
    model = models.create("four_conv_cnn", GRAY, 10, 0.05)
    assert [block.output_shape[1] for block in model.layers[:4]] == [14, 7, 3, 3]
    block = model.layers[2]
    # Of small variance, so that epsilon counts.
    x = 0.01 * np.random.default_rng(0).normal(size=(4, 7, 7, 6)).astype(np.float32)
    kernel, bias = block.layers[0].get_weights()
    padded = np.pad(x, ((0, 0), (1, 1), (1, 1), (0, 0)))
    y = np.maximum(_normalized(_correlated(padded, kernel, range(7)) + bias, 1e-5), 0.0)
    pooled = y[:, :6, :6].reshape(4, 3, 2, 3, 2, -1).max((2, 4))
    np.testing.assert_allclose(block(x, training=True), pooled, atol=1e-4)


def test_preact_resnet18_is_that_of_heterofls_code():
    """With stride 2, windows are centred on the positions that the shortcut picks; in NumPy."""
    model = models.create("preact_resnet18", (16, 16, 3), 10, 0.05)
    block = model.get_layer("stage2_block1")
    weights = {w.name.split(":")[0]: w.numpy() for w in block.weights}

    def kernel(name):
        return weights[f"stage2_block1_{name}/kernel"]

    x = 0.01 * np.random.default_rng(0).normal(size=(4, 16, 16, 3)).astype(np.float32)
    a = np.maximum(_normalized(x, 1e-5), 0.0)
    pads = ((0, 0), (1, 1), (1, 1), (0, 0))
    y = _correlated(np.pad(a, pads), kernel("conv1"), range(0, 16, 2))
    y = np.pad(np.maximum(_normalized(y, 1e-5), 0.0), pads)
    y = _correlated(y, kernel("conv2"), range(8)) + a[:, ::2, ::2] @ kernel("conv_shortcut")[0, 0]
    np.testing.assert_allclose(block(x, training=True), y, atol=1e-4)


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


def test_four_conv_cnn_needs_a_map_that_can_be_halved_three_times():
    with pytest.raises(ValueError, match=r"at least 8x8\. Received: input_shape=\(7, 9, 1\)$"):
        models.create("four_conv_cnn", (7, 9, 1), 10)


def test_vgg11_ends_in_one_value_a_channel():
    for shape in (IMAGE, GRAY):
        model = models.create("vgg11", shape, 10, 0.1)
        assert model.layers[-2].output_shape == (None, 1, 1, 51)


def test_bilstm_options_and_dropout():
    model = models.create("bilstm", (8,), 2, 0.5, vocabulary=50, embedding=16, units=12)
    assert model.layers[0].embeddings.shape == (50, 8)
    assert model.layers[1].output_shape == (None, 12)
    x = np.arange(16, dtype=np.int32).reshape(2, 8)
    assert model(x).shape == (2, 1)
    embedded = model.layers[0](x)
    dropped = model.layers[1](embedded, training=True)
    assert np.any(dropped.numpy() == 0)
    assert not np.any(model.layers[1](embedded, training=False).numpy() == 0)


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


@pytest.mark.parametrize(
    ("option", "value"),
    [("vocabulary", 0), ("embedding", 0), ("units", -1), ("dropout", 1.0)],
)
def test_errors_of_bilstm_options(option, value):
    with pytest.raises(ValueError, match=rf"^{option} must be .* Received: {option}={value}$"):
        models.create("bilstm", (8,), 2, **{option: value})


def test_the_package_does_not_import_tensorflow():
    code = "import sys, models; sys.exit('tensorflow' in sys.modules or not models.NAMES)"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0
