"""A round and short ways to computations, for the tests of the in-process runtime."""

import collections

import numpy as np
import tensorflow as tf
import tensorflow_federated as tff

SIZE = 50
RECORD = tff.SequenceType(collections.OrderedDict(x=tff.TensorType(np.float32, [None, SIZE])))
WEIGHTS = tff.TensorType(np.float32, [SIZE, SIZE])


def create_round(num_steps=3):
    """A round whose clients train variables and whose sums depend on their order."""

    @tff.tensorflow.computation(WEIGHTS, RECORD)
    def train(weights, record):
        trained = tf.Variable(tf.random.normal([SIZE, SIZE]), name="trained")
        steps = tf.Variable(1.0, name="steps")

        @tf.function
        def loop(weights, record):
            trained.assign(weights)
            x = record.get_single_element()["x"]
            for _ in tf.range(num_steps):
                trained.assign_add(0.01 * tf.matmul(x, tf.matmul(x, trained), transpose_a=True))
                steps.assign_add(1.0)
            return trained - weights, steps.read_value()

        return loop(weights, record)

    @tff.tensorflow.computation(WEIGHTS, WEIGHTS)
    def update(weights, total):
        return weights + 0.01 * total

    @tff.federated_computation(
        tff.FederatedType(WEIGHTS, tff.SERVER), tff.FederatedType(RECORD, tff.CLIENTS)
    )
    def run_round(weights, records):
        trained = tff.federated_map(train, (tff.federated_broadcast(weights), records))
        new = tff.federated_map(update, (weights, tff.federated_sum(trained[0])))
        return new, trained[1]

    return run_round


def records(count):
    rngs = (np.random.default_rng(client) for client in range(count))
    arrays = (rng.normal(size=(3 + i, SIZE)).astype(np.float32) for i, rng in enumerate(rngs))
    return [tf.data.Dataset.from_tensors(collections.OrderedDict(x=x)) for x in arrays]


def initial():
    return np.random.default_rng(7).normal(size=(SIZE, SIZE)).astype(np.float32)


def run(context, computation, *args):
    with tff.framework.get_context_stack().install(context):
        return computation(*args)


def at_clients(type_spec, all_equal=False):
    return tff.FederatedType(type_spec, tff.CLIENTS, all_equal)


def at_server(type_spec):
    return tff.FederatedType(type_spec, tff.SERVER)


def vector(dtype, size):
    return tff.TensorType(dtype, [size])


SEQUENCE = tff.SequenceType(np.int32)


def local(fn, *types):
    return tff.tensorflow.computation(fn, *types)


def federated(fn, *types):
    return tff.federated_computation(fn, *types)
