"""Losses and metrics, named or functions; those of a task reach the model and metrics.csv."""

import csv
import dataclasses

import numpy as np
import pytest
import tensorflow as tf
import tensorflow_federated as tff

import tasks
from tests import tiny
from tff_partial.algorithms import fedavg
from tff_partial.cli import run as run_experiment
from tff_partial.core import evaluation, objectives
from tff_partial.core import model as model_spec
from tff_partial.core.local_training import LocalTraining
from tff_partial.experiments import components, config

RNG = np.random.default_rng(0)
LOGITS = RNG.normal(size=(40, 9)).astype(np.float32)
LABELS = RNG.integers(0, 9, 40).astype(np.int32)


def test_categorical_is_the_softmaxs_cross_entropy():
    expected = np.log(np.exp(LOGITS).sum(1)) - LOGITS[np.arange(40), LABELS]
    np.testing.assert_allclose(objectives.categorical(LABELS, tf.constant(LOGITS)), expected, 1e-5)


def test_binary_is_the_sigmoids_cross_entropy():
    labels, logit = LABELS % 2, LOGITS[:, :1]
    probability = 1 / (1 + np.exp(-logit[:, 0]))
    expected = -np.log(np.where(labels, probability, 1 - probability))
    np.testing.assert_allclose(objectives.binary(labels, tf.constant(logit)), expected, 1e-4)


def test_top5_accuracy_counts_labels_among_the_five_largest():
    largest = np.argsort(-LOGITS, 1)[:, :5]
    expected = [float(y in row) for y, row in zip(LABELS, largest)]
    assert 0 < np.mean(expected) < 1
    np.testing.assert_array_equal(objectives.top5_accuracy(LABELS, LOGITS), expected)


def test_a_loss_that_does_not_fit_the_output_is_refused():
    with pytest.raises(ValueError, match="one logit. Received: 9"):
        objectives.binary(LABELS, tf.constant(LOGITS))
    with pytest.raises(ValueError, match="each class. Received: 1"):
        objectives.categorical(LABELS, tf.constant(LOGITS[:, :1]))


@pytest.mark.parametrize(
    "wrong", [{"loss": "hinge"}, {"metrics": ("top5_accuracy",)}, {"metrics": ("accuracy", "f1")}]
)
def test_unknown_names_are_refused(wrong):
    with pytest.raises(ValueError, match="Received"):
        model_spec.ModelSpec(tiny.create_dense, (tiny.FEATURES,), **wrong)


def test_the_specs_loss_is_the_one_that_is_evaluated():
    spec = model_spec.ModelSpec(tiny.create_dense, (tiny.FEATURES,), loss="binary")
    x, y = tiny.client_data()[0]
    with pytest.raises(ValueError, match="binary loss must have one logit"):
        evaluation.build(spec, x, y)(spec.instantiate().weights)


def test_every_task_hands_its_loss_and_metrics_to_the_model():
    for task in tasks.TASKS.values():
        created = config.create(task.name, "fedavg")
        model = components.create_model(created, components.load_data(created, "embedded", None))
        assert (model.loss, model.metrics) == (task.loss, task.metrics)


def test_a_tasks_metrics_are_columns_of_metrics_csv(tmp_path, keep_runtime):
    out = tmp_path / "out"
    flags = ["--task=cifar100", "--rounds=3", "--eval_every=2", "--model=softmax", "--clients=4"]
    flags += ["--clients_per_round=2", "--local_steps=1", "--data=embedded", "--partition=iid"]
    assert run_experiment.main([*flags, f"--output_dir={out}"]) == 0
    with open(out / "metrics.csv", newline="") as file:
        rows = list(csv.DictReader(file))
    assert [bool(row["test_top5_accuracy"]) for row in rows] == [False, True, True]
    assert float(rows[-1]["test_top5_accuracy"]) >= float(rows[-1]["test_accuracy"])


def focal(labels, logits):
    """The cross-entropy of examples that are wrong counts more."""
    p = tf.gather(tf.nn.softmax(logits), labels, batch_dims=1)
    return -((1 - p) ** 2) * tf.math.log(p)


def certainty(labels, logits):
    return tf.gather(tf.nn.softmax(logits), labels, batch_dims=1)


def test_functions_are_losses_and_metrics():
    p = np.exp(LOGITS)[np.arange(40), LABELS] / np.exp(LOGITS).sum(1)
    found = objectives.losses(focal, LABELS, tf.constant(LOGITS))
    np.testing.assert_allclose(found, -((1 - p) ** 2) * np.log(p), 1e-4)
    spec = dataclasses.replace(tiny.spec(), loss=focal, metrics=("accuracy", certainty))
    ((x, y),) = tiny.client_data(sizes=(30,))
    weights = spec.instantiate().weights
    tested = evaluation.build(spec, x, y)(weights)
    logits = spec.instantiate().forward(x, training=False)
    assert tested.loss == pytest.approx(np.mean(focal(y, logits)), rel=1e-4)
    assert list(tested.metrics) == ["accuracy", "certainty"]
    assert tested.metrics["certainty"] == pytest.approx(np.mean(certainty(y, logits)), rel=1e-4)
    own = tff.learning.algorithms.build_fed_eval(spec.to_tff_model)
    state = own.set_model_weights(own.initialize(), tf.nest.map_structure(np.asarray, weights))
    batches = tf.data.Dataset.from_tensors((x, y))
    theirs = own.next(state, [batches]).metrics["client_work"]["eval"]["current_round_metrics"]
    assert float(theirs["loss"]) == pytest.approx(tested.loss, rel=1e-4)
    assert float(theirs["certainty"]) == pytest.approx(tested.metrics["certainty"], rel=1e-4)


def test_training_follows_an_own_loss():
    spec = dataclasses.replace(tiny.spec(), loss=lambda y, logits: 0 * certainty(y, logits))
    local = LocalTraining(steps=3, batch_size=4)
    process = fedavg.build(spec, fedavg.Params(local))
    start = process.initialize()
    after = process.next(start, tiny.cohort(tiny.client_data())).state
    for a, b in zip(tiny.flat(start.global_model_weights), tiny.flat(after.global_model_weights)):
        np.testing.assert_array_equal(a, b)


def test_a_mean_is_no_loss_of_each_example():
    keras = tf.keras.losses.SparseCategoricalCrossentropy(from_logits=True)
    with pytest.raises(ValueError, match="for each example .* Received: sparse_categorical_cross"):
        objectives.losses(keras, LABELS, tf.constant(LOGITS))
    each = tf.keras.losses.SparseCategoricalCrossentropy(from_logits=True, reduction="none")
    assert objectives.losses(each, LABELS, tf.constant(LOGITS)).shape == (40,)


@pytest.mark.parametrize("metrics", [("accuracy", lambda y, p: y), (certainty,), (certainty,) * 2])
def test_metrics_need_names_of_their_own(metrics):
    with pytest.raises(ValueError, match="functions with names, each once. Received: metrics="):
        objectives.check(None, metrics)
