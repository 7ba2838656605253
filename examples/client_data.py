"""TFF's ClientData with texts as ids, a loss of one's own, and FedAdam on the server."""

import tff_partial as fl

import numpy as np
import tensorflow as tf
import tensorflow_federated as tff
from sklearn import datasets

images, labels = datasets.load_digits(return_X_y=True)
pixels = (images / 16).astype(np.float32)
parts = np.array_split(np.random.default_rng(0).permutation(1500), 30)
writers = tff.simulation.datasets.TestClientData(
    {f"writer-{i}": {"pixels": pixels[p], "label": labels[p]} for i, p in enumerate(parts)}
)


def focal(labels, logits):
    """Cross entropy in which examples that are hard count more (Lin et al., 2017)."""
    entropy = tf.nn.sparse_softmax_cross_entropy_with_logits(labels, logits)
    return (1 - tf.exp(-entropy)) ** 2 * entropy


def create():
    return tf.keras.Sequential([tf.keras.layers.Dense(64, "relu"), tf.keras.layers.Dense(10)])


result = fl.run(
    model=fl.ModelSpec(create, input_shape=(64,), loss=focal),
    clients=writers,
    test=(pixels[1500:], labels[1500:]),
    server_optimizer="fedadam",
    server_learning_rate=0.02,
    learning_rate=lambda round_num: 0.1 / (1 + round_num / 10),
    rounds=20,
    output_dir="results/writers",
)
print(result.summary["final_test_accuracy"])
