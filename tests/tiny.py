"""A tiny problem that the tests share: three clients, a small dense network."""

import numpy as np
import tensorflow as tf

from tff_partial import model_spec, records

FEATURES, CLASSES = 5, 3


def create_dense(batch_norm=False):
    """5-4-3 dense network, with batch norm after the hidden layer if asked."""
    blocks = [tf.keras.layers.Dense(4, activation="relu", name="hidden")]
    if batch_norm:
        blocks.append(tf.keras.layers.BatchNormalization(name="norm"))
    return tf.keras.Sequential([*blocks, tf.keras.layers.Dense(CLASSES, name="classifier")])


def spec(batch_norm=False, seed=0):
    return model_spec.ModelSpec(lambda: create_dense(batch_norm), (FEATURES,), seed=seed)


def client_data(sizes=(12, 7, 20), seed=0):
    """Per client (x, y); the label is a function of x, so that it can be learnt."""
    rng = np.random.default_rng(seed)
    xs = [rng.normal(size=(n, FEATURES)).astype(np.float32) for n in sizes]
    return [(x, ((x[:, 0] > 0).astype(np.int32) + (x[:, 1] > 0)).astype(np.int32)) for x in xs]


def cohort(data, seed=0, tiers=1):
    """A record for each client; the first is of tier 0, the next of tier 1, and so on."""
    return [records.create_record(x, y, i, seed, i % tiers) for i, (x, y) in enumerate(data)]


def run(process, data, rounds, state=None, tiers=1):
    """Runs rounds with all clients; returns the last state and the metrics of each round."""
    state, metrics = state or process.initialize(), []
    for _ in range(rounds):
        output = process.next(state, cohort(data, tiers=tiers))
        state = output.state
        metrics.append(output.metrics["client_work"])
    return state, metrics


def flat(weights):
    return [np.asarray(w) for w in tf.nest.flatten(weights)]
