"""FedAvg and EmbracingFL as plain loops over NumPy and Keras.

    python examples/fedavg_by_hand.py

The idea before the machinery: the library does the same with TensorFlow Federated, client state,
checkpoints, costs and several runtimes. A test shows that both give the same weights.
"""

from __future__ import annotations

import numpy as np
import tensorflow as tf


def train(layers, x, y, batches, learning_rate):
    """Train layers on a client's data by SGD, one step for each batch (an array of indices)."""
    model = tf.keras.Sequential(layers)
    loss_fn = tf.keras.losses.SparseCategoricalCrossentropy(from_logits=True)
    for batch in batches:
        with tf.GradientTape() as tape:
            loss = loss_fn(y[batch], model(x[batch], training=True))
        variables = model.trainable_variables
        for variable, gradient in zip(variables, tape.gradient(loss, variables)):
            variable.assign_sub(learning_rate * gradient)


def fedavg(model, clients, cohorts, draw, learning_rate):
    """Train the whole model on every client.

    Args:
      model: A built `tf.keras.Sequential`; it has the final weights afterwards.
      clients: Examples and labels, (x, y), of each client.
      cohorts: For each round, the clients that take part.
      draw: (Round, client) -> the client's batches.
      learning_rate: Learning rate of local SGD.
    """
    for t, cohort in enumerate(cohorts):
        start, trained = model.get_weights(), []
        for client in cohort:
            model.set_weights(start)
            train(model.layers, *clients[client], draw(t, client), learning_rate)
            trained.append(model.get_weights())
        model.set_weights([np.mean(arrays, axis=0) for arrays in zip(*trained)])


def embracing(model, clients, cohorts, draw, learning_rate, cut):
    """Train on each client the layers from `cut[client]` on.

    The layers before the cut run once a round, one after the other, on all data of the client, and
    only their output is kept: a weak client never holds the whole model with its activations. A
    layer is averaged over the clients that trained it; a layer that nobody trained stays.
    """
    for t, cohort in enumerate(cohorts):
        start = [layer.get_weights() for layer in model.layers]
        trained = [[] for _ in model.layers]
        for client in cohort:
            for layer, weights in zip(model.layers, start):
                layer.set_weights(weights)
            x, y = clients[client]
            for layer in model.layers[: cut[client]]:
                x = layer(x).numpy()
            train(model.layers[cut[client] :], x, y, draw(t, client), learning_rate)
            for i in range(cut[client], len(model.layers)):
                trained[i].append(model.layers[i].get_weights())
        for layer, weights, others in zip(model.layers, start, trained):
            means = [np.mean(arrays, axis=0) for arrays in zip(*others)]
            layer.set_weights(means if others else weights)


def main():
    """Train both on 8 clients and print their training accuracies."""
    rng = np.random.default_rng(0)
    clients = []
    for _ in range(8):  # each sees one half of the plane more often than the other
        x = rng.normal(rng.normal(size=2), 1.5, size=(60, 2)).astype(np.float32)
        clients.append((x, (x[:, 0] * x[:, 1] > 0).astype(np.int32)))
    cohorts = [rng.choice(8, 4, replace=False) for _ in range(30)]
    cut = [0, 0, 1, 1, 2, 2, 2, 2]  # two strong, two moderate and four weak clients

    def draw(t, client):
        return np.split(np.random.default_rng([t, client]).permutation(60), 6)

    def accuracy(model):
        x, y = (np.concatenate(arrays) for arrays in zip(*clients))
        return np.mean(np.argmax(model(x), -1) == y)

    for name, run in (
        ("FedAvg", lambda model: fedavg(model, clients, cohorts, draw, 0.2)),
        ("EmbracingFL", lambda model: embracing(model, clients, cohorts, draw, 0.2, cut)),
    ):
        layers = [
            tf.keras.layers.Dense(
                n, activation, kernel_initializer=tf.keras.initializers.GlorotUniform(n + i)
            )
            for i, (n, activation) in enumerate([(32, "relu"), (32, "relu"), (2, None)])
        ]
        model = tf.keras.Sequential([tf.keras.Input([2]), *layers])
        before = accuracy(model)
        run(model)
        print(f"{name}: training accuracy {before:.3f} before, {accuracy(model):.3f} after")


if __name__ == "__main__":
    main()
