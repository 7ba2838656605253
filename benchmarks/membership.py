"""How well a loss threshold tells who took part in training, at several levels of privacy.

    python -m benchmarks.membership --data_dir=<folder where MNIST is prepared> [--epsilons=16,4,1]

Half of the clients train a small network on MNIST with FedAvg. Whoever has the final model then
guesses that an example is a member's if its loss is below a threshold. The advantage is the rate of
right guesses for members' examples minus that of wrong ones for the others'; 0 is a blind guess.
The threshold is the best one for half of the clients, and tried on the other half. A benchmark, not
a proof: other attacks may do better, up to the bound that (epsilon, delta) gives for clients,
(e^epsilon - 1 + 2 delta) / (e^epsilon + 1).
"""

from __future__ import annotations

import argparse
import math
from collections.abc import Sequence
from typing import Any, Optional

import numpy as np

from benchmarks.measure import write_json

CLIENTS, EXAMPLES, COHORT, ROUNDS, CLIP = 60, 10, 30, 60, 1.0
DELTA = CLIENTS**-1.1


def advantage(members: np.ndarray, others: np.ndarray) -> float:
    """Return the difference of the shares of losses [n] below a threshold found on other losses."""
    halves = [np.array_split(side, 2) for side in (members, others)]
    found = []
    for tried, known in ((0, 1), (1, 0)):
        thresholds = np.concatenate([side[known] for side in halves])
        best = thresholds[np.argmax(_difference(halves, known, thresholds))]
        found.append(_difference(halves, tried, best))
    return float(np.mean(found))


def _difference(halves: Sequence[Sequence[np.ndarray]], half: int, threshold: Any) -> Any:
    sides = [np.sort(side[half]) for side in halves]
    below = [np.searchsorted(side, threshold, "right") / len(side) for side in sides]
    return below[0] - below[1]


def bound(epsilon: float) -> float:
    """Return the largest advantage that (epsilon, delta) allows for telling a client."""
    if epsilon > 500:
        return 1.0
    return min(1.0, (math.exp(epsilon) - 1 + 2 * DELTA) / (math.exp(epsilon) + 1))


def load(data_dir: Optional[str], seed: int) -> tuple[Any, Any, Any]:
    """Return members, others (both lists of a client's examples and labels) and test data."""
    import tasks

    data = tasks.load(
        tasks.TASKS["mnist"],
        data="tfds" if data_dir else "embedded",
        data_dir=data_dir,
        partition="iid",
        clients=2 * CLIENTS,
        seed=seed,
        train_examples=2 * CLIENTS * EXAMPLES,
    )
    clients = [data.client(client) for client in range(2 * CLIENTS)]
    return clients[:CLIENTS], clients[CLIENTS:], (data.test_x, data.test_y)


def attack(epsilon: Optional[float], data: tuple[Any, Any, Any], seed: int) -> dict[str, float]:
    """Train with this epsilon, plainly for None, and try to tell members from others."""
    import tensorflow as tf

    import tasks
    import tff_partial as fl
    from tff_partial.experiments import privacy

    def create() -> tf.keras.Model:
        layers = [tf.keras.layers.Flatten(), tf.keras.layers.Dense(32, "relu")]
        return tf.keras.Sequential([*layers, tf.keras.layers.Dense(10)])

    members, others, test = data
    draws = CLIENTS, COHORT, "poisson", DELTA
    noise = 0.0 if epsilon is None else privacy.noise_for(epsilon, ROUNDS, *draws)
    preprocess = tasks.TASKS["mnist"].preprocess
    model = fl.Model(create, (28, 28, 1), "uint8", preprocess=preprocess, seed=seed)
    fedavg = fl.algorithms.fedavg
    local = fl.LocalTraining(epochs=10, batch_size=10, learning_rate=0.1)
    private = fl.Private(noise, contributors=(COHORT,), clip=CLIP)
    process = fedavg.build(
        model,
        fedavg.Params(local, weighting="uniform"),
        None if epsilon is None else private,
    )
    *_, last = fl.simulate(process, members, ROUNDS, COHORT, seed=seed, sampling="poisson")
    trained = model.instantiate()
    trained.assign(process.get_model_weights(last.state))

    def logits(x: np.ndarray) -> Any:
        return trained.forward(trained.preprocess(tf.constant(x)), training=False)

    def losses(clients: Sequence[tuple[np.ndarray, np.ndarray]]) -> np.ndarray:
        x, y = (np.concatenate(arrays) for arrays in zip(*clients))
        return trained.losses(tf.constant(y), logits(x)).numpy()

    right = tf.math.in_top_k(tf.constant(test[1]), logits(test[0]), 1).numpy()
    return {
        "noise": noise,
        "accuracy": float(np.mean(right)),
        "advantage": advantage(losses(members), losses(others)),
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--data_dir")
    parser.add_argument("--epsilons", default="16,4,1")
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--json")
    args = parser.parse_args()
    levels = [None, *map(float, args.epsilons.split(","))]
    rows: dict[str, dict[str, float]] = {}
    data = [load(args.data_dir, seed) for seed in range(args.seeds)]
    print(f"{'epsilon':>8} {'noise':>7} {'accuracy':>9} {'advantage':>18} {'bound':>6}")
    for epsilon in levels:
        found = [attack(epsilon, data[seed], seed) for seed in range(args.seeds)]
        advantages = [each["advantage"] for each in found]
        row = rows["none" if epsilon is None else f"{epsilon:g}"] = {
            "noise": found[0]["noise"],
            "accuracy": float(np.mean([each["accuracy"] for each in found])),
            "advantage": float(np.mean(advantages)),
            "deviation": float(np.std(advantages, ddof=1)) if args.seeds > 1 else 0.0,
            "bound": 1.0 if epsilon is None else bound(epsilon),
        }
        print(
            f"{'mean' if epsilon is None else f'{epsilon:g}':>8} {row['noise']:>7.3f} "
            f"{row['accuracy']:>9.3f} {row['advantage']:>9.3f} ± {row['deviation']:.3f} "
            f"{row['bound']:>7.3f}",
            flush=True,
        )
    write_json(args.json, rows)


if __name__ == "__main__":
    main()
