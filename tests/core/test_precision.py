"""Local training in shorter types, against rounding by hand."""

import numpy as np
import pytest
import tensorflow as tf

from tests import tiny
from tff_partial.core import local_training
from tff_partial.core import model as model_spec
from tff_partial.core.local_training import LocalTraining
from tff_partial.core.precision import PRECISIONS, LossScale
from tff_partial.layers import parts

BFLOAT16 = tf.bfloat16.as_numpy_dtype
ETA = 0.2


def softmax_regression():
    return model_spec.ModelSpec(
        lambda: tf.keras.Sequential([tf.keras.layers.Dense(tiny.CLASSES)]), (tiny.FEATURES,)
    )


def train(precision, x, y, steps):
    """The kernel and the bias before and after steps on all examples at once."""
    local = LocalTraining(steps=steps, batch_size=len(y), precision=precision)
    model = softmax_regression().instantiate(precision)
    model.trainable[1].assign(tf.linspace(-1.0, 1.0, tiny.CLASSES))
    initial = tf.nest.map_structure(tf.convert_to_tensor, model.weights)
    record = tiny.cohort([(x, y)])[0].get_single_element()
    tf.function(local_training.build(model, parts.everything(model), local))(
        initial, record, tf.constant(ETA)
    )
    return [t.numpy() for t in initial.trainable], [v.numpy() for v in model.trainable]


def rounded(x):
    return np.asarray(x, np.float32).astype(BFLOAT16).astype(np.float32)


def gradients_by_hand(x, y, kernel, bias, rounded):
    """Of the mean loss of softmax regression; `rounded` is applied wherever a layer's result is."""
    logits = rounded(rounded(rounded(x) @ rounded(kernel)) + rounded(bias)).astype(np.float64)
    p = np.exp(logits - logits.max(1, keepdims=True))
    p /= p.sum(1, keepdims=True)
    errors = rounded((p - np.eye(tiny.CLASSES)[y]) / len(y))
    return rounded(rounded(x).T @ errors), rounded(errors.sum(0))


def test_a_step_in_bfloat16_is_the_one_with_rounding_by_hand():
    """Sums are in another order, so that a value may be rounded to the next bfloat16.

    A few gradients may be such; then they differ by 2^-7 of themselves, or of an example's error,
    which is 1/16 at most, times its feature.
    """
    ((x, y),) = tiny.client_data(sizes=(16,))
    before, after = train("bfloat16", x, y, 1)
    for w, new, gradient, exact in zip(
        before,
        after,
        gradients_by_hand(x, y, *before, rounded),
        gradients_by_hand(x, y, *before, lambda a: a),
    ):
        assert new.dtype == np.float32
        found = (w - new) / ETA  # a subtraction in float32
        assert np.isclose(found, gradient, atol=1e-6).mean() > 0.6
        bound = 2.0**-7 * np.abs(gradient) + 2.0**-7 / 16 * np.abs(x).max()
        assert (np.abs(found - gradient) <= bound).all()
        assert not np.allclose(found, exact, rtol=1e-4)
        np.testing.assert_allclose(found, exact, atol=0.02)


def test_float16_skips_steps_that_overflow_and_recovers():
    """Gradients of more than 200, times a scale of 2^10 and then of 2^9, are beyond 65504."""
    ((x, y),) = tiny.client_data(sizes=(16,))
    x = 400 * np.abs(x) + 400
    start, still = train("float16", x, y, 2)
    for a, b in zip(start, still):
        np.testing.assert_array_equal(a, b)
    _, moved = train("float16", x, y, 12)
    assert all(np.isfinite(v).all() for v in moved)
    assert not np.allclose(moved[0], start[0])


def test_float16_equals_float32_but_for_rounding_where_nothing_overflows():
    ((x, y),) = tiny.client_data(sizes=(16,))
    _, short = train("float16", x, y, 5)
    _, exact = train("float32", x, y, 5)
    for a, b in zip(short, exact):
        assert not np.array_equal(a, b)
        np.testing.assert_allclose(a, b, atol=5e-3)


def test_the_scale_halves_after_an_overflow_and_doubles_after_2000_steps():
    scale = LossScale()

    @tf.function
    def run(gradients, steps):
        admitted = True
        for _ in tf.range(steps):
            admitted = scale.admits(tf.unstack(gradients))
        return admitted, scale.scaled(1.0)

    def after(gradients, steps=1):
        admitted, factor = run(tf.constant(gradients), tf.constant(steps))
        return bool(admitted), float(factor)

    assert after([1.0, np.inf]) == (False, 2.0**9)
    assert after([np.nan, 1.0]) == (False, 2.0**8)
    assert after([1.0, 2.0], 1999) == (True, 2.0**8)
    assert after([1.0, 2.0]) == (True, 2.0**9)
    assert after([1.0, 2.0], 1999) == (True, 2.0**9)
    assert after([1.0, np.inf], 30) == (False, 1.0)
    scale.reset()
    np.testing.assert_allclose(scale.unscaled([tf.constant(2.0**10)])[0], 1.0)


@pytest.mark.parametrize("precision", PRECISIONS)
def test_layers_compute_in_the_type_and_variables_and_logits_are_float32(precision):
    spec = tiny.spec(batch_norm=True)
    model = spec.instantiate(precision)
    x = tf.ones([2, tiny.FEATURES])
    hidden = model.forward(x, training=True, blocks=model.blocks[:-1])
    assert hidden.dtype == precision
    assert model.forward(x, training=True).dtype == tf.float32
    assert {v.dtype for v in model.variables} == {tf.float32}
    assert tf.keras.layers.Dense(1).compute_dtype == "float32"  # outside nothing has changed
    same = [np.array_equal(a, b) for a, b in zip(model.trainable, spec.instantiate().trainable)]
    assert all(same)  # the seed determines them, whatever the type
