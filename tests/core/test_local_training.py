"""The batches and the local loop, eagerly, against NumPy."""

import numpy as np
import pytest
import tensorflow as tf

from tests import tiny
from tff_partial.core import local_training, sgd
from tff_partial.core import model as model_spec
from tff_partial.core.local_training import BatchOrder, LocalTraining
from tff_partial.core.model import Cut
from tff_partial.layers import parts


def batches(local, n, seed=(1, 2)):
    order = BatchOrder(local, tf.constant(n), tf.constant(seed))
    return [order.indices(tf.constant(s)).numpy() for s in range(int(order.num_steps))]


def test_steps_cut_full_batches_from_a_chain_of_shuffles():
    drawn = batches(LocalTraining(steps=7, batch_size=4), 10)
    assert [len(b) for b in drawn] == [4] * 7
    chain = np.concatenate(drawn)
    for start in (0, 10):
        assert sorted(chain[start : start + 10]) == list(range(10))
    assert list(chain[:10]) != list(chain[10:20])


def test_more_than_the_data_in_one_batch():
    drawn = batches(LocalTraining(steps=2, batch_size=8), 3)
    assert [len(b) for b in drawn] == [8, 8]
    assert sorted(np.concatenate(drawn)[:3]) == [0, 1, 2]


def test_epochs_cut_each_shuffle_by_itself():
    drawn = batches(LocalTraining(epochs=2, batch_size=4), 10)
    assert [len(b) for b in drawn] == [4, 4, 2, 4, 4, 2]
    for epoch in (drawn[:3], drawn[3:]):
        assert sorted(np.concatenate(epoch)) == list(range(10))


@pytest.mark.parametrize("mode", ["steps", "epochs"])
def test_no_data_no_steps(mode):
    assert batches(LocalTraining(**{mode: 3}, batch_size=4), 0) == []


def test_batches_follow_the_seed():
    local = LocalTraining(epochs=1, batch_size=50)
    assert np.array_equal(batches(local, 50)[0], batches(local, 50)[0])
    assert not np.array_equal(batches(local, 50)[0], batches(local, 50, (1, 3))[0])


# As in PyTorch: all parameters decay, after clipping; the gradient is clipped in every step.
TORCH = {"steps": 9, "weight_decay": 0.5, "weight_decay_on": "all", "clip_norm": 0.2}


def numpy_softmax_training(x, y, kernel, bias, drawn, local, slope=(0.0, 0.0), pull=0.0):
    """Momentum SGD of softmax regression, written without the code under test."""
    decay, clip, of_all = local.weight_decay, local.clip_norm, local.weight_decay_on == "all"
    kernel, bias = kernel.astype(np.float64), bias.astype(np.float64)
    first_kernel, first_bias = kernel, bias
    kernel_velocity, bias_velocity = np.zeros_like(kernel), np.zeros_like(bias)
    loss_sum = 0.0
    for batch in drawn:
        logits = x[batch] @ kernel + bias
        p = np.exp(logits - logits.max(1, keepdims=True))
        p /= p.sum(1, keepdims=True)
        loss_sum -= np.log(p[np.arange(len(batch)), y[batch]]).sum()
        p[np.arange(len(batch)), y[batch]] -= 1
        dk, db = x[batch].T @ p / len(batch), p.mean(0)
        if not of_all:
            dk = dk + decay * kernel
        dk = dk + slope[0] + pull * (kernel - first_kernel)
        db = db + slope[1] + pull * (bias - first_bias)
        if clip is not None:
            norm = np.sqrt((dk**2).sum() + (db**2).sum())
            dk, db = dk * min(1, clip / norm), db * min(1, clip / norm)
        if of_all:
            dk, db = dk + decay * kernel, db + decay * bias
        kernel_velocity = local.momentum * kernel_velocity + dk
        bias_velocity = local.momentum * bias_velocity + db
        kernel, bias = kernel - 0.2 * kernel_velocity, bias - 0.2 * bias_velocity
    return kernel, bias, loss_sum


@pytest.mark.parametrize(
    ("settings", "own"),
    [
        ({"steps": 9}, {}),
        ({"epochs": 2, "momentum": 0.9}, {}),
        ({"steps": 9, "momentum": 0.5, "weight_decay": 0.1}, {}),
        ({"epochs": 1, "weight_decay": 0.01, "clip_norm": 0.2}, {}),
        (TORCH, {}),
        ({**TORCH, "momentum": 0.9}, {}),
        (TORCH, {"slope": (0.3, -0.2), "pull": 0.7}),
        ({**TORCH, "momentum": 0.5}, {"slope": (0.3, -0.2), "pull": 0.7}),
        ({"steps": 9}, {"pull": 0.7}),
        ({"steps": 9}, {"slope": (0.3, -0.2)}),
        ({"steps": 9}, {"slope": (0.3, -0.2), "pull": 0.7}),
        ({"epochs": 2, "momentum": 0.9}, {"slope": (0.3, -0.2), "pull": 0.7}),
        ({"epochs": 2, "clip_norm": 0.2}, {"slope": (0.3, -0.2), "pull": 0.7}),
        ({"steps": 9, "momentum": 0.5}, {"pull": 1}),
        # A rate at which the pull alone would jump to the start and beyond.
        ({"steps": 9}, {"slope": (0.3, -0.2), "pull": 5.0}),
    ],
)
def test_local_loop_equals_numpy(settings, own):
    local = LocalTraining(batch_size=4, learning_rate=0.2, **settings)
    softmax = model_spec.ModelSpec(
        lambda: tf.keras.Sequential([tf.keras.layers.Dense(tiny.CLASSES)]), (tiny.FEATURES,)
    )
    model = softmax.instantiate()
    model.trainable[1].assign(tf.linspace(-1.0, 1.0, tiny.CLASSES))  # so that its decay shows
    kernel, bias = (v.numpy() for v in model.trainable)
    ((x, y),) = tiny.client_data(sizes=(10,))
    record = tiny.cohort([(x, y)])[0].get_single_element()
    slope, pull = own.get("slope", ()), own.get("pull", 0.0)
    given = [tf.fill(v.shape, s) for v, s in zip(model.trainable, slope)]
    train = tf.function(local_training.build(model, parts.everything(model), local, pull))
    initial = tf.nest.map_structure(tf.convert_to_tensor, model.weights)
    sums = train(initial, record, tf.constant(0.2), given)
    expected_kernel, expected_bias, loss_sum = numpy_softmax_training(
        x,
        y,
        kernel,
        bias,
        batches(local, 10, record["seed"].numpy()),
        local,
        **own,
    )
    np.testing.assert_allclose(model.trainable[0], expected_kernel, atol=1e-6)
    np.testing.assert_allclose(model.trainable[1], expected_bias, atol=1e-6)
    assert float(sums["loss"]) == pytest.approx(loss_sum, rel=1e-5)
    if pull:
        for v, first, s in zip(model.trainable, (kernel, bias), slope or (0.0, 0.0)):
            left = model.buffer(v, sgd.SLOPE)
            np.testing.assert_allclose(left, s + pull * (v.numpy() - first), atol=1e-5)


class Penalty(tf.keras.layers.Layer):
    """Adds what it sees to the loss."""

    def call(self, x):
        self.add_loss(0.05 * tf.reduce_mean(tf.square(x)))
        return x


TERMS = {
    "kernel_regularizer": {"kernel_regularizer": tf.keras.regularizers.L2(0.2)},
    "bias_regularizer": {"bias_regularizer": tf.keras.regularizers.L1(0.1)},
    "activity_regularizer": {"activity_regularizer": tf.keras.regularizers.L2(0.3)},
    "kernel_constraint": {"kernel_constraint": tf.keras.constraints.MaxNorm(0.5)},
    "add_loss": {},
}
PARTS = {
    "everything": (parts.everything, (True, True, True)),
    "stopped": (lambda model: parts.stopped(model, Cut(1)), (False, True, True)),
    "recorded": (lambda model: parts.recorded(model, Cut(1), [(0, 1)], 4), (False, True, True)),
    "leading": (lambda model: parts.leading(model, 1), (True, True, False)),
}
TERM_CASES = [*((name, "everything") for name in TERMS), *(("all", name) for name in PARTS)]


def create_with_terms(which):
    """Return a network of three blocks; what is asked for is in each of them."""
    terms = [TERMS[name] for name in (TERMS if which == "all" else [which])]
    options = {key: value for term in terms for key, value in term.items()}
    penalty = [Penalty(name="penalty")] if which in ("add_loss", "all") else []
    inputs = tf.keras.Input((tiny.FEATURES,))
    x = dense = tf.keras.layers.Dense(4, "tanh", name="first", **options)(inputs)
    x = tf.keras.layers.Dense(4, name="second", **options)(x)
    for layer in penalty:
        x = layer(x)
    x = tf.keras.layers.Add(name="third")([x, dense])
    return tf.keras.Model(inputs, tf.keras.layers.Dense(3, name="last", **options)(x))


@pytest.mark.parametrize(("which", "part"), TERM_CASES)
def test_what_layers_add_to_the_loss_is_trained_as_keras_does(which, part):
    """Beside Keras's own `train_on_batch`; what a part does not train is frozen there."""
    spec = model_spec.ModelSpec(lambda: create_with_terms(which), (tiny.FEATURES,))
    local = LocalTraining(batch_size=4, steps=5, momentum=0.5)
    model, keras_model = spec.instantiate(), create_with_terms(which)
    keras_model.set_weights([v.numpy() for v in model.variables])
    part_fn, trained = PARTS[part]
    for name, is_trained in zip(("first", "second", "last"), trained):
        keras_model.get_layer(name).trainable = is_trained
    loss = tf.keras.losses.SparseCategoricalCrossentropy(from_logits=True)
    keras_model.compile(tf.keras.optimizers.SGD(0.2, momentum=0.5), loss)
    ((x, y),) = tiny.client_data(sizes=(10,))
    record = tiny.cohort([(x, y)])[0].get_single_element()
    for batch in batches(local, 10, record["seed"].numpy()):
        keras_model.train_on_batch(x[batch], y[batch])
    train = tf.function(local_training.build(model, part_fn(model), local), autograph=False)
    initial = tf.nest.map_structure(tf.convert_to_tensor, model.weights)
    train(initial, record, tf.constant(0.2))
    expected = {v.name: v.numpy() for v in keras_model.variables}
    moved = [np.abs(v - w).max() > 0 for v, w in zip(model.variables, initial.trainable)]
    assert moved == [is_trained for is_trained in trained for _ in range(2)]
    for variable in model.variables:
        np.testing.assert_allclose(variable, expected[variable.name], atol=2e-6)


def test_a_slope_of_another_length_is_refused():
    model = tiny.spec().instantiate()
    initial = tf.nest.map_structure(tf.convert_to_tensor, model.weights)
    record = tiny.cohort(tiny.client_data())[0].get_single_element()
    train = local_training.build(model, parts.everything(model), LocalTraining(steps=1))
    with pytest.raises(ValueError, match="slope must have 4 tensors.* Received: 1"):
        train(initial, record, tf.constant(0.5), initial.trainable[:1])


@pytest.mark.parametrize(
    "settings",
    [
        {},
        {"steps": 1, "epochs": 1},
        {"steps": 0},
        {"epochs": -1},
        {"steps": 1, "batch_size": 0},
        {"steps": 1, "momentum": 1.0},
        {"steps": 1, "weight_decay": -1.0},
        {"steps": 1, "weight_decay_on": "biases"},
        {"steps": 1, "learning_rate": 0},
        {"steps": 1, "clip_norm": 0.0},
        {"steps": 1, "precision": "float64"},
        {"steps": 1, "record_precision": "float16"},
    ],
)
def test_bad_settings_are_refused(settings):
    with pytest.raises(ValueError, match="Received"):
        LocalTraining(**settings)


def test_augmentation_draws_anew_in_every_step():
    drawn = []

    def augment(x, seed):
        noise = tf.random.stateless_uniform([], seed)
        tf.py_function(lambda n: drawn.append(float(n)), [noise], [])
        return x + noise

    spec = model_spec.ModelSpec(tiny.create_dense, (tiny.FEATURES,), augment=augment)
    model = spec.instantiate()
    train = local_training.build(model, parts.everything(model), LocalTraining(steps=3))
    initial = tf.nest.map_structure(tf.convert_to_tensor, model.weights)
    record = tiny.cohort(tiny.client_data())[0].get_single_element()
    for _ in range(2):
        tf.function(train)(initial, record, tf.constant(0.1))
    assert len(set(drawn[:3])) == 3
    assert drawn[:3] == drawn[3:]


@pytest.mark.parametrize("momentum", [0.0, 0.5, 0.9, 0.9999])
@pytest.mark.parametrize("steps", [1, 2, 10, 60])
def test_effective_steps_are_the_gradients_in_a_displacement(steps, momentum):
    velocity = moved = 0.0
    for _ in range(steps):
        velocity = momentum * velocity + 1.0
        moved += velocity
    local = local_training.LocalTraining(steps=steps, momentum=momentum)
    assert float(local.effective_steps(steps)) == pytest.approx(moved, rel=1e-5)
