"""Adam, AdamW and TFF's optimisers against NumPy, with an algorithm's own terms, and fresh."""

import numpy as np
import pytest
import tensorflow as tf
import tensorflow_federated as tff

from tests import tiny
from tff_partial.algorithms import registry
from tff_partial.core import local_optimizers
from tff_partial.core.local_training import LocalTraining

RATE = 0.05


def create(optimizer, pull=0.0, **settings):
    model = tiny.spec().instantiate()
    local = LocalTraining(steps=1, optimizer=optimizer, **settings)
    return model.trainable, local_optimizers.create(model, model.trainable, local, pull)


def draw(variables, seed):
    rng = np.random.default_rng(seed)
    return [rng.normal(size=v.shape).astype(np.float32) for v in variables]


def numpy_adam(weights, gradients, beta_1, beta_2, epsilon, decays, eta=RATE):
    """The weights after each step, as the papers write Adam and AdamW."""
    means, squares = [0.0] * len(weights), [0.0] * len(weights)
    weights = [w.astype(np.float64) for w in weights]
    for t, grads in enumerate(gradients, 1):
        means = [beta_1 * m + (1 - beta_1) * g for m, g in zip(means, grads)]
        squares = [beta_2 * v + (1 - beta_2) * g**2 for v, g in zip(squares, grads)]
        rate = eta * np.sqrt(1 - beta_2**t) / (1 - beta_1**t)
        weights = [
            w - eta * decay * w - rate * m / (np.sqrt(v) + epsilon)
            for w, m, v, decay in zip(weights, means, squares, decays)
        ]
    return weights


@pytest.mark.parametrize("pull", [0.0, 0.5])
@pytest.mark.parametrize(
    ("optimizer", "settings", "decays"),
    [
        ("adam", {}, (0, 0, 0, 0)),
        ("adam", {"beta_1": 0.5, "beta_2": 0.8, "epsilon": 0.01}, (0, 0, 0, 0)),
        ("adamw", {"weight_decay": 0.1}, (0.1, 0, 0.1, 0)),
        ("adamw", {"weight_decay": 0.1, "weight_decay_on": "all"}, (0.1,) * 4),
    ],
)
def test_adam_is_that_of_the_papers_and_the_slope_follows(optimizer, settings, decays, pull):
    variables, steps = create(optimizer, pull, **settings)
    first, slope = [v.numpy() + 1 for v in variables], draw(variables, 9)
    gradients = [draw(variables, seed) for seed in range(4)]
    for _ in range(2):  # a round starts anew, whatever the one before it left
        for variable, value in zip(variables, first):
            variable.assign(value)
        steps.reset(slope=[tf.constant(s) for s in slope])
        for grads in gradients:
            steps.apply([tf.constant(g) for g in grads], tf.constant(RATE))
    given = {"beta_1": 0.9, "beta_2": 0.999, "epsilon": 1e-7, **settings}
    betas = [given[name] for name in ("beta_1", "beta_2", "epsilon")]
    for variable, w in zip(variables, numpy_adam(first, gradients, *betas, decays)):
        np.testing.assert_allclose(variable, w, atol=1e-5)
    for variable, w, kept, s in zip(variables, first, steps.slope, slope):
        np.testing.assert_allclose(kept, s + pull * (variable - w), atol=1e-5)


def test_state_can_be_taken_out_and_given_back():
    """Two pieces of two steps are four steps."""
    variables, steps = create("adam")
    first, gradients = [v.numpy() for v in variables], [draw(variables, s) for s in range(4)]
    steps.reset()
    for grads in gradients[:2]:
        steps.apply([tf.constant(g) for g in grads], tf.constant(RATE))
    kept = [tf.identity(v) for v in steps.state]
    steps.reset()
    steps.reset(kept)
    for grads in gradients[2:]:
        steps.apply([tf.constant(g) for g in grads], tf.constant(RATE))
    expected = numpy_adam(first, gradients, 0.9, 0.999, 1e-7, (0,) * 4)
    for variable, w in zip(variables, expected):
        np.testing.assert_allclose(variable, w, atol=1e-5)


@pytest.mark.parametrize("rate", [None, RATE])
def test_tffs_optimizers_have_their_own_rate_or_that_of_local_training(rate):
    stock = tff.learning.optimizers.build_adam(RATE if rate is None else 7.0)
    variables, steps = create(stock, learning_rate=rate)
    first, gradients = [v.numpy() for v in variables], [draw(variables, s) for s in range(3)]
    for _ in range(2):
        for variable, value in zip(variables, first):
            variable.assign(value)
        steps.reset()
        for grads in gradients:
            steps.apply([tf.constant(g) for g in grads], tf.constant(RATE))
    for variable, w in zip(variables, numpy_adam(first, gradients, 0.9, 0.999, 1e-7, (0,) * 4)):
        np.testing.assert_allclose(variable, w, atol=1e-5)


class Fixed(tff.learning.optimizers.Optimizer):
    """Subtracts the gradient; has no learning rate."""

    def initialize(self, specs):
        return ()

    def next(self, state, weights, gradients):
        return state, tf.nest.map_structure(tf.subtract, weights, gradients)


def test_an_optimizer_without_a_rate():
    variables, steps = create(Fixed())
    first = [v.numpy() for v in variables]
    steps.reset()
    steps.apply([tf.ones_like(v) for v in variables], tf.constant(RATE))
    for variable, w in zip(variables, first):
        np.testing.assert_allclose(variable, w - 1, atol=1e-6)
    _, steps = create(Fixed(), learning_rate=0.1)
    with pytest.raises(ValueError, match="learning_rate must be left .* Received: optimizer=Fixed"):
        steps.apply([tf.ones_like(v) for v in variables], tf.constant(RATE))


@pytest.mark.parametrize(
    "wrong",
    [
        {"optimizer": "rmsprop"},
        {"optimizer": tf.keras.optimizers.Adam},
        {"optimizer": "adam", "momentum": 0.9},
        {"optimizer": "adam", "beta_1": 1.0},
        {"optimizer": "adam", "beta_2": -0.1},
        {"optimizer": "adamw", "epsilon": 0.0},
    ],
)
def test_wrong_settings_are_refused(wrong):
    with pytest.raises(ValueError, match="Received: "):
        LocalTraining(steps=1, **wrong)


def test_a_misspelt_name_gets_a_suggestion():
    with pytest.raises(ValueError, match="Did you mean adam"):
        LocalTraining(steps=1, optimizer="adm")


def test_default_rates():
    for name, rate in (("sgd", 0.1), ("adam", 0.001), ("adamw", 0.001)):
        assert float(LocalTraining(steps=1, optimizer=name).schedule()(3)) == np.float32(rate)


@pytest.mark.parametrize("name", ["scaffold", "feddc", "fedumf_feddc", "vrl_sgd"])
def test_algorithms_with_variates_say_why_they_need_sgd(name):
    with pytest.raises(ValueError, match="optimizer must be sgd, whose displacement .* Received"):
        tiny.build(name, LocalTraining(steps=5, optimizer="adam"))


@pytest.mark.parametrize("name", ["embracing", "fjord", "fedumf", "partial_averaging"])
def test_tiers_submodels_and_client_states_learn_with_adam(name):
    local = LocalTraining(steps=5, batch_size=4, learning_rate=0.02, optimizer="adam")
    params = {}
    if "tiers" in registry.ALGORITHMS[name].needs:
        params = {"tiers": registry.ALGORITHMS[name].params().tiers[:3]}
    process = tiny.build(name, local, tiny.spec(batch_norm=True), **params)
    _, metrics = tiny.run(process, tiny.client_data(), rounds=8, tiers=3)
    losses = [float(m["train_loss"]) for m in metrics]
    assert np.mean(losses[-2:]) < 0.9 * losses[0]


@pytest.mark.parametrize("name", ["fedavg", "feddyn"])
def test_tffs_adam_is_ours(name):
    def weights(optimizer):
        local = LocalTraining(steps=4, batch_size=4, learning_rate=0.01, optimizer=optimizer)
        state, _ = tiny.run(tiny.build(name, local), tiny.client_data(), rounds=2)
        return tiny.flat(state.global_model_weights)

    stock = weights(tff.learning.optimizers.build_adam(9.0))
    for a, b in zip(weights("adam"), stock):
        np.testing.assert_allclose(a, b, atol=1e-5)


def test_models_that_persist_need_a_named_optimizer():
    local = LocalTraining(steps=2, optimizer=tff.learning.optimizers.build_adam(0.1))
    with pytest.raises(ValueError, match="optimizer must be one of sgd, adam, adamw where clients"):
        tiny.build("partial_averaging", local)


def test_in_one_segment_adam_goes_on_where_clients_keep_their_models():
    """One client: periodic averaging is a long run of Adam, whatever the rounds."""
    ((x, y),) = data = tiny.client_data(sizes=(8,))
    local = LocalTraining(steps=2, batch_size=8, learning_rate=0.01, optimizer="adam")
    process = tiny.build("periodic_averaging", local)
    model = tiny.spec().instantiate()
    first = [v.numpy() for v in model.trainable]
    gradients, weights = [], first
    for _ in range(6):
        for variable, value in zip(model.trainable, weights):
            variable.assign(value)
        with tf.GradientTape() as tape:
            loss = tf.reduce_mean(model.losses(y, model.forward(x, training=True)))
        gradients.append([g.numpy() for g in tape.gradient(loss, model.trainable)])
        weights = numpy_adam(first, gradients, 0.9, 0.999, 1e-7, (0,) * 4, 0.01)
    state, _ = tiny.run(process, data, rounds=3)
    for a, b in zip(tiny.flat(state.global_model_weights), weights):
        np.testing.assert_allclose(a, b, atol=1e-5)
