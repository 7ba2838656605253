"""Examples that a server makes up: the model takes them for the labels they were made for."""

import numpy as np
import pytest
import tensorflow as tf

from tff_partial.core import model as model_spec
from tff_partial.submodels import groups, pseudo_data, scores

CLASSES, PER_CLASS = 3, 4


def spec():
    """Hidden unit i sees input i only, and speaks for class i // 4."""

    def create():
        layers = tf.keras.layers
        return tf.keras.Sequential([layers.Dense(12, "relu"), layers.Dense(CLASSES)])

    return model_spec.ModelSpec(create, (12,))


@pytest.fixture(scope="module")
def model():
    made = spec().instantiate()
    speaks = np.repeat(np.eye(CLASSES), PER_CLASS, axis=0)
    values = [np.eye(12), np.zeros(12), 4 * speaks - 1, np.zeros(CLASSES)]
    for variable, value in zip(made.trainable, values):
        variable.assign(value.astype(np.float32))
    return made


def generate(model, labels, seed=(1, 2)):
    run = tf.function(pseudo_data.build(model, CLASSES, 60), autograph=False)
    return run(tf.constant(labels, tf.int32), tf.constant(seed, tf.int32))


def test_the_model_takes_pseudo_examples_for_the_clients_labels(model):
    x = generate(model, [1, 1, 1, 2])
    assert x.shape == (60, 12)
    predicted = np.argmax(model.forward(x, training=False), axis=1)
    shares = np.bincount(predicted, minlength=CLASSES) / 60
    np.testing.assert_allclose(shares, [0.0, 0.75, 0.25], atol=0.15)


def test_they_activate_the_neurons_of_the_clients_classes(model):
    channels = groups.analyse(model.spec)
    score = scores.build_scores(model, channels, 0, 20, lambda x: x)
    for label in range(CLASSES):
        [found] = score(generate(model, [label] * 5), tf.constant([0, 0]))
        by_class = found.numpy().reshape(CLASSES, PER_CLASS).sum(axis=1)
        assert np.argmax(by_class) == label
        assert by_class[label] > 0.5 * by_class.sum()


def test_they_are_a_function_of_the_seed(model):
    first, again, other = (generate(model, [0, 1], seed) for seed in ((3, 4), (3, 4), (3, 5)))
    np.testing.assert_array_equal(first, again)
    assert np.abs(first - other).max() > 0.1


def test_a_client_without_examples_is_no_error(model):
    assert np.isfinite(generate(model, [])).all()


def test_words_are_refused():
    def create():
        layers = tf.keras.layers
        return tf.keras.Sequential([layers.Embedding(9, 4), layers.LSTM(3), layers.Dense(2)])

    words = model_spec.ModelSpec(create, (5,), "int32").instantiate()
    with pytest.raises(ValueError, match="inference_data must be local.*inputs of int32"):
        pseudo_data.build(words, 2, 10)
