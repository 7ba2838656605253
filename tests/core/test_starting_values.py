"""Frozen layers and loaded weights: the same values in every graph, and no part of what is sent."""

import numpy as np
import pytest
import tensorflow as tf
import tensorflow_federated as tff

from tests import tiny
from tff_partial import costs
from tff_partial.core import evaluation, starting_values, tracing
from tff_partial.core.local_training import LocalTraining
from tff_partial.core.model import ModelSpec
from tff_partial.processes import learning
from tff_partial.submodels import groups

layers = tf.keras.layers
LOCAL = LocalTraining(steps=3, batch_size=4, learning_rate=0.1, momentum=0.5)
BACKBONE = np.random.default_rng(0).normal(size=(tiny.FEATURES, 4)).astype(np.float32)
MEAN, VARIANCE = np.linspace(-1, 1, 4, dtype=np.float32), np.full(4, 2.0, np.float32)


def backbone():
    """A dense layer and a batch normalisation with weights of their own."""
    inputs = tf.keras.Input((tiny.FEATURES,))
    dense = layers.Dense(4, name="base_dense")
    norm = layers.BatchNormalization(name="base_norm")
    model = tf.keras.Model(inputs, norm(dense(inputs)), name="base")
    dense.set_weights([BACKBONE, np.zeros(4)])
    norm.set_weights([np.ones(4), np.zeros(4), MEAN, VARIANCE])
    return model


def head():
    """The layers that are trained; they start alike wherever they stand."""
    first, last = tf.keras.initializers.GlorotUniform(1), tf.keras.initializers.GlorotUniform(2)
    return [
        layers.Dense(6, "relu", kernel_initializer=first, name="hidden"),
        layers.Dense(tiny.CLASSES, kernel_initializer=last, name="classifier"),
    ]


def create(trainable=False, is_nested=False):
    base = backbone()
    base.trainable = trainable
    inputs = base.input
    x = base.output
    if is_nested:
        inputs = tf.keras.Input((tiny.FEATURES,))
        x = base(inputs, training=False)
    for layer in head():
        x = layer(x)
    return tf.keras.Model(inputs, x)


def features(x):
    """What the frozen backbone computes: its statistics, not the batch's."""
    return (x @ BACKBONE - MEAN) / np.sqrt(VARIANCE + 1e-3)


@pytest.mark.parametrize("algo", ["fedavg", "embracing", "fedpmt", "partial_averaging", "scaffold"])
def test_training_on_a_frozen_backbone_is_training_on_its_features(algo):
    has_tiers = algo in ("embracing", "fedpmt")
    frozen = ModelSpec(lambda: create(is_nested=algo == "scaffold"), (tiny.FEATURES,))
    alone = ModelSpec(lambda: tf.keras.Sequential(head()), (4,))
    data = tiny.client_data()
    found = []
    for spec, clients, cut in (
        (frozen, data, len(frozen.instantiate().blocks) - 1),
        (alone, [(features(x).astype(np.float32), y) for x, y in data], 1),
    ):
        params = {"tiers": ("strong", str(cut))} if has_tiers else {}
        process = tiny.build(algo, LOCAL, spec, **params)
        rounds = tiny.Rounds(process, clients, tiers=2 if has_tiers else 1)
        rounds.next()
        found.append([*rounds.weights(), rounds.metrics[-1]["train_loss"]])
    for a, b in zip(*found, strict=True):
        np.testing.assert_allclose(a, b, rtol=1e-4, atol=1e-5)


@pytest.fixture(scope="module")
def spec():
    return ModelSpec(create, (tiny.FEATURES,))


def test_frozen_variables_are_in_no_weights_and_no_bytes(spec):
    names = ["hidden/kernel", "hidden/bias", "classifier/kernel", "classifier/bias"]
    assert spec.variable_names == names
    numbers = 4 * 6 + 6 + 6 * 3 + 3
    cost = costs.whole(spec, 4)
    assert (cost.parameters, cost.bytes_down, cost.bytes_up) == (numbers, *[4 * numbers] * 2)


def create_trainable():
    return create(trainable=True)


FROZEN = [BACKBONE, np.zeros(4), np.ones(4), np.zeros(4), MEAN, VARIANCE]


@pytest.mark.parametrize("initial", [True, False])
def test_frozen_values_are_the_same_in_every_graph(spec, initial):
    @tff.tensorflow.computation
    def in_a_graph():
        model = spec.instantiate("float16", initial)
        return [v.read_value() for v in model.frozen]

    for values in (in_a_graph(), spec.instantiate("bfloat16", initial).frozen):
        for value, expected in zip(values, FROZEN, strict=True):
            np.testing.assert_allclose(value, expected)


def saved(folder, kind):
    """Return how a user would get a trained model, in different ways."""
    model = create_trainable()
    rng = np.random.default_rng(1)
    weights = [rng.uniform(0.5, 1.0, w.shape).astype(np.float32) for w in model.get_weights()]
    model.set_weights(weights)
    path = f"{folder}/saved{kind}"
    if kind in (".weights.h5", "checkpoint"):
        model.save_weights(path)
    elif kind == ".keras":
        model.save(path)

    def load():
        if kind == ".keras":
            return tf.keras.models.load_model(path, compile=False)
        fresh = create_trainable()
        if kind == "set_weights":
            fresh.set_weights(weights)
        elif kind == "assign":
            for variable, value in zip(fresh.variables, weights):
                variable.assign(value)
        else:
            fresh.load_weights(path)
        return fresh

    return weights, load


@pytest.mark.parametrize("kind", [".weights.h5", ".keras", "checkpoint", "set_weights", "assign"])
def test_a_process_starts_with_loaded_weights(tmp_path, kind):
    weights, load = saved(tmp_path, kind)
    spec = ModelSpec(load, (tiny.FEATURES,))
    assert not spec.has_frozen
    started = learning.build_initial_weights(spec)()
    by_shape = sorted(weights, key=lambda w: (w.shape, w.tolist()))
    found = sorted(tiny.flat(started), key=lambda w: (w.shape, w.tolist()))
    for value, expected in zip(found, by_shape, strict=True):
        np.testing.assert_array_equal(value, expected)


def test_values_that_follow_from_the_seed_are_left_to_the_graph():
    graph = tf.Graph()
    with graph.as_default():
        tiny.spec(batch_norm=True).instantiate()
    assert not starting_values.are_given(graph)
    assert "_values" not in vars(tiny.spec(batch_norm=True))


def test_nothing_is_loaded_into_a_graph(tmp_path):
    _, load = saved(tmp_path, "assign")
    spec, graph = ModelSpec(load, (tiny.FEATURES,)), tf.Graph()
    with graph.as_default():
        spec.instantiate(initial=False)
    assert not starting_values.are_given(graph)


def test_a_frozen_model_is_evaluated_with_its_values(spec):
    (x, y), *_ = tiny.client_data()
    model = spec.instantiate()
    kernels = [v.numpy() for v in model.trainable]
    hidden = np.maximum(features(x) @ kernels[0] + kernels[1], 0)
    logits = hidden @ kernels[2] + kernels[3]
    correct = float(np.mean(np.argmax(logits, 1) == y))
    result = evaluation.build(spec, x, y)(model.weights)
    assert result.metrics["accuracy"] == pytest.approx(correct)
    evaluate = tff.learning.algorithms.build_fed_eval(spec.to_tff_model)
    weights = tff.learning.models.ModelWeights([v.numpy() for v in model.trainable], [])
    state = evaluate.set_model_weights(evaluate.initialize(), weights)
    data = tf.data.Dataset.from_tensors((x, y))
    metrics = evaluate.next(state, [data]).metrics["client_work"]["eval"]["current_round_metrics"]
    assert metrics["accuracy"] == pytest.approx(correct)


def test_graphs_with_frozen_values_are_not_kept(spec):
    class Kept:
        def get(self, name):
            raise AssertionError("asked")

        put = get

    with tracing.kept_in(Kept()):
        assert tracing.installed_for(spec) is None
        assert tracing.installed_for(tiny.spec()) is not None
        tiny.build("fedavg", LOCAL, spec)


def test_sub_models_of_frozen_layers_are_refused(spec):
    with pytest.raises(ValueError, match="without frozen layers"):
        groups.analyse(spec)


def test_a_model_with_values_is_declared_outside_of_graphs():
    with tf.Graph().as_default(), pytest.raises(ValueError, match="outside of graphs"):
        ModelSpec(create, (tiny.FEATURES,))
