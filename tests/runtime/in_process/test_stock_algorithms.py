"""Stock TFF algorithms and aggregators give the same on the in-process and on TFF's C++ runtime."""

import collections

import numpy as np
import pytest
import tensorflow as tf
import tensorflow_federated as tff

FEATURES, CLASSES = 4, 3
ELEMENT = collections.OrderedDict(
    x=tf.TensorSpec([None, FEATURES], tf.float32), y=tf.TensorSpec([None], tf.int32)
)


def create_model():
    layers = [
        tf.keras.layers.Dense(5, "relu", kernel_initializer="ones", input_shape=(FEATURES,)),
        tf.keras.layers.Dense(CLASSES, kernel_initializer="zeros"),
    ]
    return tff.learning.models.from_keras_model(
        tf.keras.Sequential(layers),
        input_spec=ELEMENT,
        loss=tf.keras.losses.SparseCategoricalCrossentropy(from_logits=True),
        metrics=[tf.keras.metrics.SparseCategoricalAccuracy()],
    )


def client_data(clients):
    data = []
    for client in range(clients):
        rng = np.random.default_rng(client)
        x = rng.normal(size=(9 + client, FEATURES)).astype(np.float32)
        y = rng.integers(0, CLASSES, 9 + client).astype(np.int32)
        columns = collections.OrderedDict(x=x, y=y)
        data.append(tf.data.Dataset.from_tensor_slices(columns).batch(4))
    return data


def sgd(rate=0.1):
    return tff.learning.optimizers.build_sgdm(rate, momentum=0.9)


def fed_avg(aggregator=None):
    return tff.learning.algorithms.build_weighted_fed_avg(
        create_model, sgd(), sgd(1.0), model_aggregator=aggregator
    )


def private():
    """Differential privacy without noise, which is for unweighted averages only."""
    factory = tff.aggregators.DifferentiallyPrivateFactory.gaussian_fixed(
        noise_multiplier=0.0, clients_per_round=3, clip=0.1
    )
    return tff.learning.algorithms.build_unweighted_fed_avg(
        create_model, sgd(), sgd(1.0), model_aggregator=factory
    )


PROCESSES = {
    "fed_avg": fed_avg,
    "fed_prox": lambda: tff.learning.algorithms.build_weighted_fed_prox(
        create_model, 0.3, sgd(), sgd(1.0)
    ),
    "mime_lite": lambda: tff.learning.algorithms.build_weighted_mime_lite(create_model, sgd()),
    "robust": lambda: fed_avg(tff.learning.robust_aggregator(zeroing=True, clipping=True)),
    "uncompressed": lambda: fed_avg(
        tff.aggregators.MeanFactory(tff.aggregators.SumFactory(), tff.aggregators.SumFactory())
    ),
    "private": private,
}


def train(context, process, rounds=3):
    with tff.framework.get_context_stack().install(context):
        state = process.initialize()
        for round_num in range(rounds):
            output = process.next(state, client_data(2 + round_num))
            state = output.state
        return tf.nest.flatten((process.get_model_weights(state).trainable, output.metrics))


def assert_close(actual, expected):
    assert len(actual) == len(expected)
    for a, b in zip(actual, expected):
        assert type(a) is type(b)
        assert np.asarray(a).dtype == np.asarray(b).dtype
        np.testing.assert_allclose(a, b, rtol=1e-6, atol=1e-6)


@pytest.mark.parametrize("name", PROCESSES)
def test_process(name, here, cpp):
    process = PROCESSES[name]()
    assert_close(train(here, process), train(cpp, process))


def test_evaluation(here, cpp):
    process = tff.learning.algorithms.build_fed_eval(create_model)

    def evaluate(context):
        with tff.framework.get_context_stack().install(context):
            output = process.next(process.initialize(), client_data(4))
            return tf.nest.flatten(output.metrics)

    assert_close(evaluate(here), evaluate(cpp))
