"""What each tier deploys and accuracy where clients are, beside the server's model."""

import numpy as np
import pytest
import tensorflow as tf

from models import normalization
from tff_partial.algorithms import registry
from tff_partial.core.local_training import LocalTraining
from tff_partial.core.model import ModelSpec
from tff_partial.experiments import evaluations

EPSILON, CLASSES = 1e-3, 3


def create():
    """A dense network with static batch normalisation: 4 inputs, 6 units, 3 classes."""
    layers = tf.keras.layers
    return tf.keras.Sequential(
        [
            tf.keras.Sequential(
                [
                    tf.keras.Input((4,)),
                    layers.Dense(6),
                    normalization.StaticBatchNormalization(epsilon=EPSILON),
                    layers.ReLU(),
                ]
            ),
            layers.Dense(CLASSES),
        ]
    )


SPEC = ModelSpec(create, (4,), seed=1)
RNG = np.random.default_rng(0)
X, CALIBRATION = (RNG.normal(size=(n, 4)).astype(np.float32) for n in (90, 40))
Y = RNG.integers(0, CLASSES, 90).astype(np.int32)
LABELS = [[0, 0, 1], [2, 2], [0, 1, 2], []]


@pytest.fixture(scope="module")
def weights():
    """Random ones, those of the normalisation included."""
    return tf.nest.map_structure(
        lambda v: RNG.uniform(0.2, 2.0, v.shape).astype(np.float32)
        * RNG.choice([-1, 1], v.shape).astype(np.float32),
        SPEC.instantiate().weights,
    )


def predictions(weights, units):
    """Of the model with the first units alone, normalised by the calibration examples."""
    kernel, bias, gamma, beta, last, last_bias = weights.trainable
    kept = slice(0, units)

    def hidden(x):
        return x @ kernel[:, kept] + bias[kept]

    mean, variance = hidden(CALIBRATION).mean(axis=0), hidden(CALIBRATION).var(axis=0)
    normal = (hidden(X) - mean) / np.sqrt(variance + EPSILON) * gamma[kept] + beta[kept]
    return np.argmax(np.maximum(normal, 0) @ last[kept] + last_bias, axis=1)


def build(algo, tiers, labels=None):
    algorithm = registry.ALGORITHMS[algo]
    params = algorithm.params(local=LocalTraining(steps=1, batch_size=4), tiers=tiers)
    deployed = evaluations.deployed_by(algorithm, SPEC, params, params.tiers, CALIBRATION)
    return evaluations.build(SPEC, X, Y, deployed, labels, calibration=CALIBRATION)


def test_the_sub_model_of_each_tier_with_statistics_of_its_own(weights):
    found = build("heterofl", ("strong", "1/2", "rate:1/3"))(weights)
    names = {"accuracy": 6, "accuracy_strong": 6, "accuracy_1/2": 3, "accuracy_rate_1-3": 2}
    expected = {name: np.mean(predictions(weights, k) == Y) for name, k in names.items()}
    assert found.metrics == pytest.approx(expected)
    assert len({*expected.values()}) == 3
    assert found.of_classes is None


def test_a_tier_that_trains_a_part_deploys_the_whole_model(weights):
    found = build("embracing", ("strong", "weak"))(weights)
    whole = np.mean(predictions(weights, 6) == Y)
    names = ("accuracy", "accuracy_strong", "accuracy_weak")
    assert found.metrics == pytest.approx(dict.fromkeys(names, whole))


def test_accuracy_on_the_labels_of_each_client_on_all_examples_or_some(weights):
    evaluate, right = build("heterofl", ("1/2",), LABELS), predictions(weights, 6) == Y
    for chosen in (None, np.arange(50)):
        tested = np.isin(np.arange(90), np.arange(90) if chosen is None else chosen)
        of_classes = [right[tested & (c == Y)].mean() for c in range(CLASSES)]
        clients = [np.mean([of_classes[c] for c in labels]) for labels in LABELS if labels]
        found = evaluate(weights, chosen)
        assert found.metrics["client_accuracy_mean"] == pytest.approx(np.mean(clients))
        assert found.metrics["client_accuracy_lowest_tenth"] == pytest.approx(min(clients))
        assert found.metrics["client_accuracy_spread"] == pytest.approx(np.std(clients))
        small = np.mean((predictions(weights, 3) == Y)[tested])
        assert found.metrics["accuracy_1/2"] == pytest.approx(small)
        assert found.examples == tested.sum()
