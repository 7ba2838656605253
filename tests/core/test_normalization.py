"""Static batch normalisation: evaluation with statistics of the clients' data, against NumPy."""

import numpy as np
import pytest
import tensorflow as tf
import tensorflow_federated as tff

from models import blocks, normalization
from tests import tiny
from tff_partial.core import evaluation
from tff_partial.core import model as model_spec
from tff_partial.core import normalization as observing

CLASSES, EPSILON = 3, 1e-3


def _static(name):
    return normalization.StaticBatchNormalization(name=name)


def _create_dense():
    hidden = blocks.chain(
        "hidden",
        tf.keras.layers.Dense(6, name="hidden_dense"),
        _static("hidden_norm"),
        tf.keras.layers.Dropout(0.5),
    )
    second = [tf.keras.layers.Dense(4, name="second"), _static("second_norm")]
    last = tf.keras.layers.Dense(CLASSES, name="classifier")
    return blocks.sequential("dense", (5,), [hidden, *second, last])


def _create_conv():
    """The same on pixels: convolutions of 1x1, means over the pixels at the end."""
    layers = [
        tf.keras.layers.Conv2D(6, 1),
        _static("norm1"),
        tf.keras.layers.Dropout(0.5),
        tf.keras.layers.Conv2D(4, 1),
        _static("norm2"),
        tf.keras.layers.Conv2D(CLASSES, 1),
        tf.keras.layers.GlobalAveragePooling2D(),
    ]
    return blocks.sequential("conv", (2, 3, 5), layers)


SPECS = {
    "dense": model_spec.ModelSpec(_create_dense, (5,), preprocess=lambda x: 2.0 * x),
    "conv": model_spec.ModelSpec(_create_conv, (2, 3, 5), preprocess=lambda x: 2.0 * x),
}


def _weights(spec):
    """Weights that no initialiser would give, useless moving statistics included."""
    draw = np.random.default_rng(1).normal
    weights = spec.instantiate().weights
    trainable, moving = (
        [draw(size=v.shape).astype(np.float32) for v in part]
        for part in (weights.trainable, weights.non_trainable)
    )
    return tff.learning.models.ModelWeights(trainable, moving)


def _data(spec, size):
    """Examples and labels; the later an example, the larger, so that batches differ."""
    rng = np.random.default_rng(size)
    x = rng.normal(1.0, 2.0, (*spec.input_shape, size)) * np.linspace(0.2, 2.0, size)
    return np.moveaxis(x, -1, 0).astype(np.float32), rng.integers(0, CLASSES, size)


def _normalize(x, statistics, gamma, beta):
    return (x - statistics[0]) / np.sqrt(statistics[1] + EPSILON) * gamma + beta


def _logits(x, trainable, statistics):
    """Logits, and mean and biased variance before each normalisation.

    Normalises with `statistics`, or with those of the batch if None.
    """
    w1, b1, gamma1, beta1, w2, b2, gamma2, beta2, w3, b3 = (w.astype(np.float64) for w in trainable)
    w1, w2, w3 = (w.reshape(w.shape[-2:]) for w in (w1, w2, w3))
    found = []

    def normalize(x, gamma, beta):
        axes = tuple(range(x.ndim - 1))
        found.append((x.mean(axes), x.var(axes)))
        return _normalize(x, statistics[len(found) - 1] if statistics else found[-1], gamma, beta)

    x = normalize(2 * np.float64(x) @ w1 + b1, gamma1, beta1)
    x = normalize(x @ w2 + b2, gamma2, beta2) @ w3 + b3
    return (x.mean((1, 2)) if x.ndim == 4 else x), found


def _expected(x, y, trainable, batches):
    """Loss and accuracy with the batches' average statistics."""
    found = [_logits(batch, trainable, None)[1] for batch in batches]
    statistics = np.array(found, dtype=object).mean(axis=0)
    logits, _ = _logits(x, trainable, list(statistics))
    losses = np.log(np.exp(logits).sum(1)) - logits[np.arange(len(y)), y]
    return losses.mean(), np.mean(logits.argmax(1) == y)


@pytest.mark.parametrize("name", SPECS)
def test_evaluates_with_the_average_statistics_of_the_batches(name):
    spec = SPECS[name]
    weights, (x, y), (calibration, _) = _weights(spec), _data(spec, 31), _data(spec, 23)
    evaluate = evaluation.build(spec, x, y, 10, calibration, calibration_batch=5)
    result = evaluate(weights)
    bounds = (0, 5, 10, 15, 19, 23)
    batches = [calibration[i:j] for i, j in zip(bounds, bounds[1:])]
    loss, accuracy = _expected(x, y, weights.trainable, batches)
    np.testing.assert_allclose(result.loss, loss, rtol=1e-5)
    np.testing.assert_allclose(result.metrics["accuracy"], accuracy, rtol=1e-6)
    whole = evaluation.build(spec, x, y, 10, calibration, calibration_batch=23)(weights)
    loss, _ = _expected(x, y, weights.trainable, [calibration])
    np.testing.assert_allclose(whole.loss, loss, rtol=1e-5)
    assert abs(whole.loss - result.loss) > 1e-2


def test_depends_on_nothing_but_the_trainable_weights_and_leaves_them_alone():
    spec = SPECS["dense"]
    weights, (x, y), (calibration, _) = _weights(spec), _data(spec, 12), _data(spec, 10)
    before = [w.copy() for w in tiny.flat(weights)]
    evaluate = evaluation.build(spec, x, y, calibration=calibration, calibration_batch=4)
    result = evaluate(weights)
    others = tff.learning.models.ModelWeights(
        [w + 1 for w in weights.trainable], [np.full_like(w, np.nan) for w in weights.non_trainable]
    )
    assert np.isfinite(evaluate(others).loss)
    assert evaluate(others) != result
    stale = tff.learning.models.ModelWeights(weights.trainable, others.non_trainable)
    assert evaluate(stale) == result
    assert all(np.array_equal(b, w) for b, w in zip(before, tiny.flat(weights)))


@pytest.mark.parametrize("name", SPECS)
def test_calibrated_weights_are_those_of_the_evaluation(name):
    """In TFF's own evaluation, which knows nothing of calibration, as well."""
    spec = SPECS[name]
    weights, (x, y), (calibration, _) = _weights(spec), _data(spec, 31), _data(spec, 23)
    found = evaluation.calibrated(spec, weights, calibration, 5)
    for a, b in zip(weights.trainable, found.trainable):
        np.testing.assert_array_equal(a, b)
    batches = np.array_split(calibration, 5)
    loss, _ = _expected(x, y, weights.trainable, batches)
    model = spec.to_tff_model()
    assign = zip(tiny.flat(found), [*model.trainable_variables, *model.non_trainable_variables])
    for value, variable in assign:
        variable.assign(value)
    output = model.forward_pass((tf.constant(x), tf.constant(y, tf.int32)), training=False)
    np.testing.assert_allclose(output.loss, loss, rtol=1e-5)


@pytest.mark.parametrize(
    ("calibration", "received"), [(None, "None"), (np.zeros((0, 5), np.float32), "0 examples")]
)
def test_a_static_model_needs_examples(calibration, received):
    message = f"^evaluation of static .* must have examples .* Received: calibration={received}$"
    x, y = _data(SPECS["dense"], 3)
    with pytest.raises(ValueError, match=message):
        evaluation.build(SPECS["dense"], x, y, calibration=calibration)


@pytest.mark.parametrize("batch_norm", [False, True])
def test_other_models_ignore_the_examples(batch_norm):
    spec, (x, y) = tiny.spec(batch_norm), tiny.client_data()[0]
    weights = _weights(spec)
    if batch_norm:
        weights.non_trainable[1] = np.abs(weights.non_trainable[1])
    untouchable = object()
    plain, ignoring = evaluation.build(spec, x, y), evaluation.build(spec, x, y, 500, untouchable)
    assert plain(weights) == ignoring(weights)


def test_static_layers_are_found_and_told_from_others():
    def static(spec):
        return spec.instantiate().layers_of(normalization.StaticBatchNormalization)

    assert all(len(static(spec)) >= 2 for spec in SPECS.values())
    assert not any(static(tiny.spec(norm)) for norm in (False, True))


def test_observed_layers_are_as_before_afterwards():
    layer = _static("norm")
    x = tf.constant(np.random.default_rng(0).normal(3.0, 2.0, (8, 4)), tf.float32)
    before = layer(x, training=False)
    with observing.observe_batches([layer]) as statistics:
        np.testing.assert_array_equal(layer(x, training=False), layer(x, training=True))
        np.testing.assert_allclose(statistics[0][0], np.mean(x, axis=0), rtol=1e-5)
        np.testing.assert_allclose(statistics[0][1], np.var(x, axis=0), rtol=1e-5)
    np.testing.assert_array_equal(layer(x, training=False), before)
