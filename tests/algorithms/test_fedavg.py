"""FedAvg against NumPy and against stock TFF, and inside TFF's own programs."""

import collections
import pathlib
import subprocess
import sys

import numpy as np
import pytest
import tensorflow as tf
import tensorflow_federated as tff

import models
from tests import tiny
from tff_partial.algorithms import fedavg
from tff_partial.core import client_data
from tff_partial.core import model as model_spec
from tff_partial.core.local_training import BatchOrder, LocalTraining


def local_batches(local, dataset, round_num):
    """The client's batches in the order in which the local loop takes them."""
    record = client_data.in_round(dataset.get_single_element(), round_num)
    order = BatchOrder(local, tf.shape(record["y"])[0], record["seed"])
    indices = [order.indices(tf.constant(s)) for s in range(int(order.num_steps))]
    return [(tf.gather(record["x"], i), tf.gather(record["y"], i)) for i in indices]


def stock_process(learning_rate, momentum):
    spec = (
        tf.TensorSpec([None, tiny.FEATURES], tf.float32),
        tf.TensorSpec([None], tf.int32),
    )

    def model_fn():
        keras_model = tiny.create_dense()
        keras_model(tf.zeros([1, tiny.FEATURES]))
        return tff.learning.models.from_keras_model(
            keras_model,
            loss=tf.keras.losses.SparseCategoricalCrossentropy(from_logits=True),
            input_spec=spec,
        )

    return tff.learning.algorithms.build_weighted_fed_avg(
        model_fn,
        client_optimizer_fn=tff.learning.optimizers.build_sgdm(learning_rate, momentum or None),
        server_optimizer_fn=tff.learning.optimizers.build_sgdm(1.0),
    )


@pytest.mark.parametrize(("mode", "momentum"), [("epochs", 0.0), ("steps", 0.9)])
def test_equals_stock_weighted_fed_avg(mode, momentum):
    # Full batches, as stock TFF weights a client by the examples that it saw, ours by those it has.
    sizes, count = ((12, 8, 20), 2) if mode == "epochs" else ((12, 12, 12), 3)
    local = LocalTraining(**{mode: count}, batch_size=4, learning_rate=0.1, momentum=momentum)
    ours = fedavg.build(tiny.spec(), fedavg.Params(local))
    stock = stock_process(0.1, momentum)
    data = tiny.client_data(sizes)
    state = ours.initialize()
    stock_state = stock.set_model_weights(stock.initialize(), ours.get_model_weights(state))
    for round_num in range(4):
        cohort = tiny.cohort(data)
        state = ours.next(state, cohort).state
        # The batches have one size, so they can be stacked.
        batches = [zip(*local_batches(local, c, round_num)) for c in cohort]
        stacked = [tuple(map(tf.stack, b)) for b in batches]
        datasets = [tf.data.Dataset.from_tensor_slices(b) for b in stacked]
        stock_state = stock.next(stock_state, datasets).state
    expected = tiny.flat(stock.get_model_weights(stock_state))
    actual = tiny.flat(ours.get_model_weights(state))
    for a, b in zip(actual, expected):
        np.testing.assert_allclose(a, b, atol=1e-5)


@pytest.mark.parametrize("weighting", ["examples", "uniform"])
def test_is_the_weighted_mean_of_what_clients_reach_alone(weighting):
    """Statistics of batch norm included; each client alone is a round with one client."""
    params = fedavg.Params(LocalTraining(steps=3, batch_size=4), weighting=weighting)
    process = fedavg.build(tiny.spec(batch_norm=True), params)
    cohort = tiny.cohort(tiny.client_data())
    start = process.initialize()
    alone = [tiny.flat(process.get_model_weights(process.next(start, [c]).state)) for c in cohort]
    together = tiny.flat(process.get_model_weights(process.next(start, cohort).state))
    shares = np.array([12, 7, 20] if weighting == "examples" else [1, 1, 1], np.float64)
    shares /= shares.sum()
    for i, actual in enumerate(together):
        expected = sum(share * weights[i] for share, weights in zip(shares, alone))
        np.testing.assert_allclose(actual, expected, atol=1e-6)
    moved = [not np.allclose(a, b) for a, b in zip(tiny.flat(start.global_model_weights), together)]
    assert all(moved), "weights and batch-norm statistics must all have moved"


def test_runs_in_tff_simulation_and_its_weights_in_tff_evaluation():
    spec = tiny.spec(batch_norm=True)
    process = fedavg.build(spec, fedavg.Params(LocalTraining(steps=5, learning_rate=0.3)))
    assert isinstance(process, tff.learning.templates.LearningProcess)
    data = tiny.client_data()
    final = tff.simulation.run_training_process(
        process, lambda round_num: tiny.cohort(data), total_rounds=15
    )
    evaluation = tff.learning.algorithms.build_fed_eval(spec.to_tff_model)
    state = evaluation.set_model_weights(evaluation.initialize(), process.get_model_weights(final))
    datasets = [tf.data.Dataset.from_tensors(client) for client in data]
    metrics = evaluation.next(state, datasets).metrics
    current = metrics["client_work"]["eval"]["current_round_metrics"]
    assert isinstance(current, collections.OrderedDict)
    assert float(current["accuracy"]) > 0.8


@pytest.mark.parametrize(
    "wrong", [{"weighting": "size"}, {"server_learning_rate": 0.0}, {"server_learning_rate": -1.0}]
)
def test_bad_hyperparameters_are_refused(wrong):
    with pytest.raises(ValueError, match="Received"):
        fedavg.build(tiny.spec(), fedavg.Params(LocalTraining(steps=1), **wrong))


@pytest.mark.parametrize("name", ["bilstm", "resnet20", "four_conv_cnn", "femnist_cnn", "mlp_100"])
def test_every_variable_of_a_model_is_trained(name):
    """What reads a variable must see what was assigned to it; Keras may cache those of LSTMs."""
    shape = (12,) if name == "bilstm" else (16, 16, 3)
    dtype = "int32" if name == "bilstm" else "float32"
    spec = model_spec.ModelSpec(lambda: models.create(name, shape, 10, width=0.2), shape, dtype)
    rng = np.random.default_rng(0)
    x = rng.integers(0, 10, (12, *shape)).astype(dtype)
    local = LocalTraining(steps=3, batch_size=6, learning_rate=0.05, momentum=0.5)
    process = fedavg.build(spec, fedavg.Params(local))
    state = process.initialize()
    after = process.next(state, [client_data.create_record(x, rng.integers(0, 10, 12))]).state
    before, after = tiny.flat(state.global_model_weights), tiny.flat(after.global_model_weights)
    moved = [not np.array_equal(a, b) for a, b in zip(before, after)]
    assert all(moved), [n for n, m in zip(spec.variable_names, moved) if not m]


def test_batch_norm_of_channels_that_4_does_not_divide():
    """With oneDNN, Grappler fuses batch norm and ReLU into an op that refuses such channels.

    `tff_partial` turns oneDNN on if it is imported before TensorFlow: in a process of its own.
    """
    code = (
        "from tff_partial import runtime; from tests.algorithms import test_fedavg; "
        "runtime.set_default()"
    )
    done = subprocess.run(
        [sys.executable, "-c", f"{code}; test_fedavg.check_narrow_batch_norm()"],
        cwd=pathlib.Path(__file__).parents[2],
        capture_output=True,
        text=True,
        timeout=300,
    )
    assert done.returncode == 0, done.stderr[-3000:]


def check_narrow_batch_norm():
    """A round equals a loop outside of any graph, for 6, 12, 25 and 51 channels."""
    shape = (8, 8, 1)
    spec = model_spec.ModelSpec(lambda: models.create("four_conv_cnn", shape, 3, width=0.1), shape)
    rng = np.random.default_rng(0)
    x = rng.normal(size=(12, *shape)).astype(np.float32)
    record = client_data.create_record(x, rng.integers(0, 3, 12))
    local = LocalTraining(steps=3, batch_size=6, learning_rate=0.1, momentum=0.5)
    process = fedavg.build(spec, fedavg.Params(local))
    state = process.initialize()
    model = spec.instantiate()
    model.assign(process.get_model_weights(state))
    optimizer = tf.keras.optimizers.SGD(0.1, 0.5)
    for x, y in local_batches(local, record, 0):
        with tf.GradientTape() as tape:
            loss = tf.reduce_mean(model.losses(y, model.forward(x, training=True)))
        optimizer.apply_gradients(zip(tape.gradient(loss, model.trainable), model.trainable))
    found = process.get_model_weights(process.next(state, [record]).state)
    for a, b in zip(tiny.flat(found), tiny.flat(model.weights)):
        np.testing.assert_allclose(a, b, atol=1e-5)
