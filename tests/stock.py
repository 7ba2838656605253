"""Stock TFF FedAvg on a tiny model, for tests of the runtimes that serve all of TFF."""

import functools

import numpy as np
import tensorflow as tf
import tensorflow_federated as tff

SPEC = (tf.TensorSpec([None, 4], tf.float32), tf.TensorSpec([None], tf.int32))


def create_model():
    layer = tf.keras.layers.Dense(3, kernel_initializer="zeros", input_shape=(4,))
    return tff.learning.models.from_keras_model(
        tf.keras.Sequential([layer]),
        input_spec=SPEC,
        loss=tf.keras.losses.SparseCategoricalCrossentropy(from_logits=True),
    )


@functools.lru_cache(maxsize=1)
def fed_avg():
    return tff.learning.algorithms.build_weighted_fed_avg(
        create_model,
        client_optimizer_fn=tff.learning.optimizers.build_sgdm(0.1),
        server_optimizer_fn=tff.learning.optimizers.build_sgdm(1.0),
    )


def client_data(clients, repeat=1):
    """`repeat` passes over 10 + client examples in batches of 5."""
    datasets = []
    for client in range(clients):
        rng = np.random.default_rng(client)
        x = rng.normal(size=(10 + client, 4)).astype(np.float32)
        y = rng.integers(0, 3, 10 + client).astype(np.int32)
        datasets.append(tf.data.Dataset.from_tensor_slices((x, y)).repeat(repeat).batch(5))
    return datasets


def train(context, cohorts, before_round=lambda round_num: None):
    """Runs a round for each list of data sets in `context`; returns the weights, flat."""
    process = fed_avg()
    with tff.framework.get_context_stack().install(context):
        state = process.initialize()
        for round_num, cohort in enumerate(cohorts):
            before_round(round_num)
            state = process.next(state, cohort).state
        weights = process.get_model_weights(state).trainable
    return np.concatenate([np.ravel(w) for w in weights])
