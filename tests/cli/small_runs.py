"""Flags of a small run, and what it leaves, for several test files."""

import csv

import numpy as np

SMALL = [
    "--task=mnist",
    "--algo=fedavg",
    "--data=embedded",
    "--model=softmax",
    "--clients=6",
    "--clients_per_round=3",
    "--local_steps=2",
    "--batch_size=8",
    "--checkpoint_every=2",
    "--eval_every=2",
]


def rows(folder):
    """The rows of metrics.csv as texts; none if there is no such file yet."""
    try:
        with open(folder / "metrics.csv", newline="") as file:
            return list(csv.DictReader(file))
    except FileNotFoundError:
        return []


def without_seconds(folder):
    """The rows but for the time that they took."""
    return [{k: v for k, v in row.items() if k != "seconds"} for row in rows(folder)]


def weights(folder):
    """The final weights, for comparison bit for bit."""
    with np.load(folder / "weights.npz") as arrays:
        return {name: arrays[name].tobytes() for name in arrays}
