"""Four ways of training with weak clients, on a model with a skip connection, at equal memory.

Three of four clients have a quarter of the memory that training the whole model takes.
"""

import sys

import tff_partial as fl
from tff_partial.cli import plots, report

import tensorflow as tf

FOLDER, ROUNDS = "results/quarter", int(sys.argv[1]) if len(sys.argv) > 1 else 30
TIERS = "strong:25%,memory:0.25:75%"


def create(input_shape, num_classes):
    """Return a functional model, which is cut into blocks where everything passes."""
    layers = tf.keras.layers
    inputs = tf.keras.Input(input_shape)
    x = layers.Conv2D(8, 3, 2, "same", activation="relu")(inputs)
    y = layers.Conv2D(8, 3, 1, "same", activation="relu")(x)
    x = layers.Conv2D(16, 3, 2, "same", activation="relu")(layers.Add()([x, y]))
    x = layers.Dense(32, "relu")(layers.Flatten()(x))
    return tf.keras.Model(inputs, layers.Dense(num_classes)(x))


settings = {"model": create, "tiers": TIERS, "clients": 20, "clients_per_round": 8}
results = [
    fl.run("mnist", algo, **settings, rounds=ROUNDS, output_dir=f"{FOLDER}/{algo}")
    for algo in ("embracing", "heterofl", "fedrolex", "feddse")
]
for result in results:
    print(result.summary["algo"], result.summary["final_test_accuracy"])
plots.main([*(result.folder for result in results), f"--output={FOLDER}/curves.png"])
report.main([FOLDER, f"--output={FOLDER}/report.html"])
