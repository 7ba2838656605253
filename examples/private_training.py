"""Accuracy against epsilon on MNIST by its writers, where three of four clients lack memory.

    python examples/private_training.py <folder with MNIST and mnist_writers.npy> [rounds]

FedAvg at equal memory is what the strong clients can do alone.
"""

import sys

import tff_partial as fl

import matplotlib.pyplot as plt
import tensorflow as tf

DATA, ROUNDS = sys.argv[1], int(sys.argv[2]) if len(sys.argv) > 2 else 20
FOLDER, NOISE = "results/private", (0.5, 1.0, 2.0)
WEAK = {"clients": 539, "clients_per_round": 54, "tiers": "strong:25%,memory:0.4:75%"}
STRONG = {**WEAK, "clients_per_round": 14, "only_tiers": "strong"}
# Without weak clients EmbracingFL is FedAvg.
RUNS = {"FedAvg": ("embracing", STRONG), "EmbracingFL": ("embracing", WEAK)}
RUNS["HeteroFL"] = ("heterofl", WEAK)


def create(input_shape, num_classes):
    """Return a small convolutional network."""
    layers = tf.keras.layers
    convolutions = [layers.Conv2D(n, 3, 2, "same", activation="relu") for n in (8, 16)]
    dense = [layers.Flatten(), layers.Dense(32, "relu"), layers.Dense(num_classes)]
    return tf.keras.Sequential([*convolutions, *dense])


def run(algo, name, noise, **given):
    """Train with this much noise; return the final epsilon and accuracy."""
    data = {"data": "tfds", "data_dir": DATA, "partition": "ids:mnist_writers.npy"}
    private = {"aggregation": "dp", "dp_clip": 0.5, "dp_noise_multiplier": noise, "dp_delta": 1e-3}
    local = {"local_epochs": 1, "batch_size": 20, "learning_rate": 0.1, "momentum": 0.5}
    settings = {"model": create, "rounds": ROUNDS, "eval_every": ROUNDS, **data, **local, **private}
    place = f"{FOLDER}/{name}-{noise:g}"
    summary = fl.run("mnist", algo, **settings, **given, output_dir=place).summary
    return summary["epsilon"], summary["final_test_accuracy"]


figure, axes = plt.subplots(figsize=(5, 3.2), layout="constrained")
for name, (algo, given) in RUNS.items():
    _, most = run(algo, name, 0.0, **given)
    points = [run(algo, name, noise, **given) for noise in reversed(NOISE)]
    print(f"{name}: no noise {most:.4f};", *(f"epsilon {e:.2f} {a:.4f};" for e, a in points))
    (line,) = axes.plot(*zip(*points), marker="o", label=name)
    axes.axhline(most, color=line.get_color(), linestyle=":", linewidth=1)
axes.set(xlabel="epsilon", ylabel="test accuracy", xscale="log")
axes.legend()
figure.savefig(f"{FOLDER}/accuracy.png", dpi=100)
