"""The steps of local SGD against NumPy, with momentum and an algorithm's own terms."""

import numpy as np
import pytest
import tensorflow as tf

from tests import tiny
from tff_partial.core import sgd

RATE = 0.1


def create(momentum, pull):
    model = tiny.spec().instantiate()
    return model.trainable, sgd.Sgd(model, model.trainable, momentum, pull)


def draw(variables, seed):
    rng = np.random.default_rng(seed)
    return [rng.normal(size=v.shape).astype(np.float32) for v in variables]


@pytest.mark.parametrize("momentum", [0.0, 0.9])
@pytest.mark.parametrize("pull", [0.0, 0.5])
def test_steps_and_slope(momentum, pull):
    """The slope is kept at `slope + pull * (w - w_0)` without being computed anew."""
    variables, optimizer = create(momentum, pull)
    first, slope = [v.numpy() for v in variables], draw(variables, seed=9)
    optimizer.reset(slope=[tf.constant(s) for s in slope])
    expected, velocity = list(first), [0.0] * len(first)
    for step in range(3):
        gradients = draw(variables, step)
        optimizer.apply([tf.constant(g) for g in gradients], tf.constant(RATE))
        velocity = [momentum * v + g for v, g in zip(velocity, gradients)]
        expected = [w - RATE * v for w, v in zip(expected, velocity)]
    for variable, w, w_0, kept, s in zip(variables, expected, first, optimizer.slope, slope):
        np.testing.assert_allclose(variable, w, atol=1e-6)
        np.testing.assert_allclose(kept, s + pull * (w - w_0), atol=1e-6)


@pytest.mark.parametrize("pull", [0.0, 0.5])
def test_a_constraint_holds_after_every_step_and_the_slope_follows(pull):
    constrained = tf.Variable([0.05, -1.0], constraint=tf.keras.constraints.NonNeg())
    free = tf.Variable([0.05, -1.0])
    model, first = tiny.spec().instantiate(), constrained.numpy()
    optimizer = sgd.Sgd(model, [constrained, free], 0.0, pull)
    optimizer.reset(slope=[tf.zeros([2])] * 2)
    for _ in range(3):
        optimizer.apply([tf.ones([2])] * 2, tf.constant(RATE))
        assert constrained.numpy().min() >= 0
    np.testing.assert_allclose(constrained, [0.0, 0.0])
    np.testing.assert_allclose(free, first - 3 * RATE, rtol=1e-6)
    if pull:
        np.testing.assert_allclose(optimizer.slope[0], pull * (0.0 - first), rtol=1e-6)


def test_momentum_is_forgotten_or_given():
    variables, optimizer = create(momentum=0.5, pull=0.0)
    ones = [tf.ones_like(v) for v in variables]
    optimizer.apply(ones, tf.constant(RATE))
    optimizer.reset()
    before = [v.numpy() for v in variables]
    optimizer.apply(ones, tf.constant(RATE))
    for variable, w in zip(variables, before):
        np.testing.assert_allclose(variable, w - RATE, atol=1e-6)
    optimizer.reset(state=[-RATE * one for one in ones])
    optimizer.apply(ones, tf.constant(RATE))
    for variable, w in zip(variables, before):
        np.testing.assert_allclose(variable, w - RATE - 1.5 * RATE, atol=1e-6)


def test_there_is_no_slope_by_default():
    _, optimizer = create(momentum=0.0, pull=0.0)
    assert list(optimizer.slope) == []
    with pytest.raises(ValueError, match="slope must have 4 tensors.* Received: 3"):
        optimizer.reset(slope=[tf.zeros([1])] * 3)
