"""The server's optimisers against NumPy, and their settings."""

import numpy as np
import pytest
import tensorflow as tf

from tff_partial.core import server_optimizers
from tff_partial.core.server_optimizers import ServerOptimizer


def numpy_steps(optimizer, updates):
    """What is added in each round, as Hsu et al. and Reddi et al. write it."""
    m, v, steps = 0.0, optimizer.tau**2, []
    for d in updates:
        if optimizer.name == "fedavgm":
            m = optimizer.beta_1 * m + d
            steps.append(optimizer.rate * m)
            continue
        m = optimizer.beta_1 * m + (1 - optimizer.beta_1) * d
        if optimizer.name == "fedadam":
            v = optimizer.beta_2 * v + (1 - optimizer.beta_2) * d**2
        else:
            v = v - (1 - optimizer.beta_2) * d**2 * np.sign(v - d**2)
        steps.append(optimizer.rate * m / (np.sqrt(v) + optimizer.tau))
    return steps


@pytest.mark.parametrize("name", ["fedavgm", "fedadam", "fedyogi"])
@pytest.mark.parametrize("given", [{}, {"learning_rate": 0.3, "beta_1": 0.5, "tau": 0.1}])
def test_steps_are_those_of_the_papers(name, given):
    optimizer = ServerOptimizer(name, **given)
    updates = np.random.default_rng(0).normal(size=[5, 3])
    state = optimizer.initialize([tf.zeros([3])])
    for update, expected in zip(updates, numpy_steps(optimizer, updates)):
        state, (step,) = optimizer.step(state, [tf.constant(update, tf.float32)])
        np.testing.assert_allclose(step, expected, rtol=1e-4)


def test_sgd_multiplies_and_has_no_state():
    optimizer = ServerOptimizer(learning_rate=0.5)
    assert not optimizer.initialize([tf.zeros([3])])
    _, (step,) = optimizer.step({}, [tf.constant([2.0])])
    assert step.numpy() == [1.0]
    assert ServerOptimizer().is_sum
    assert not optimizer.is_sum


def test_what_nobody_trained_stays():
    old = {"m": [tf.zeros([2]), tf.zeros([2, 2])]}
    new = {"m": [tf.ones([2]), tf.ones([2, 2])]}
    trained = [tf.constant(False), tf.constant([True, False])]
    kept = server_optimizers.where_trained(trained, new, old)
    assert [x.numpy().tolist() for x in kept["m"]] == [[0, 0], [[1, 0], [1, 0]]]


@pytest.mark.parametrize(
    "wrong",
    [
        {"name": "adam"},
        {"learning_rate": 0.0},
        {"learning_rate": float("nan")},
        {"beta_1": 1.0},
        {"beta_2": -0.1},
        {"tau": 0.0},
    ],
)
def test_wrong_settings_are_refused(wrong):
    with pytest.raises(ValueError, match="server_.* must be .* Received: server_"):
        ServerOptimizer(**{"name": "fedadam", **wrong})
