"""A tiny problem that the tests share: three clients, a small dense network."""

import dataclasses

import numpy as np
import tensorflow as tf

from tff_partial.algorithms import registry
from tff_partial.core import client_data as records
from tff_partial.core import local_training
from tff_partial.core import model as model_spec
from tff_partial.experiments import client_store

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


def batches(record, round_num, local):
    """The indices of each local step of a round, as the client loop draws them."""
    element = records.in_round(record.get_single_element(), round_num)
    order = local_training.BatchOrder(local, tf.shape(element["y"])[0], element["seed"])
    return [order.indices(step).numpy() for step in range(int(order.num_steps))]


def build(name, local, model=None, **params):
    """An algorithm's process; one with client state is told of the three clients."""
    algorithm = registry.ALGORITHMS[name]
    if "population" in algorithm.needs:
        params = {"population": 3, **params}
    else:
        params.pop("population", None)
    if "examples" in params_of(algorithm):  # the server has some by default
        params = {"server_examples": server_examples, **params}
    return algorithm.build(model or spec(), algorithm.params(local=local, **params))


def params_of(algorithm):
    return {field.name for field in dataclasses.fields(algorithm.params)}


def server_examples(count):
    return np.random.default_rng(9).normal(size=(count, FEATURES)).astype(np.float32)


class Rounds:
    """Calls a process round after round, and keeps what its clients keep."""

    def __init__(self, process, data, tiers=1, seed=0):
        self.process, self.records = process, cohort(data, seed, tiers)
        self.state, self.metrics, self._kept = process.initialize(), [], {}

    def next(self, selected=None, others=()):
        """Runs a round of these clients, all by default; `others` train without uploading."""
        selected = range(len(self.records)) if selected is None else selected
        ids = [*selected, *others]
        chosen = [self.records[i] for i in ids]
        if not hasattr(self.process, "initial_client_state"):
            output = self.process.next(self.state, chosen)
        else:
            uploads = [i in selected for i in ids]
            values = [self._kept.get(i, self.process.initial_client_state()) for i in ids]
            states = self.process.client_states(ids, uploads, values)
            output = self.process.next(self.state, states, chosen)
            self._kept |= client_store.by_id(output.client_states)
        self.state = output.state
        self.metrics.append(output.metrics["client_work"])

    def kept(self, client):
        return self._kept[client]

    def weights(self):
        return flat(self.process.get_model_weights(self.state))


def run(process, data, rounds, state=None, tiers=1):
    """Runs rounds with all clients; returns the last state and the metrics of each round."""
    running = Rounds(process, data, tiers)
    running.state = state or running.state
    for _ in range(rounds):
        running.next()
    return running.state, running.metrics


def flat(weights):
    return [np.asarray(w) for w in tf.nest.flatten(weights)]
