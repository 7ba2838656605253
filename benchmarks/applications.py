"""Models of `keras.applications`, without weights, trained with several algorithms.

    nice python -m benchmarks.applications [--models=MobileNetV2,...] [--algorithms=fedavg,...]

Images of 32x32, 4 classes; two clients of four random images, one round of two local steps of two
images and another one. With tiers the first client is strong and the second weak: it trains what
is left at a fifth of the memory, or a fifth of the channels. `frozen` is a new head on a
MobileNetV2 with `trainable = False`. Every pair runs in a process of its own:

spec:   processor seconds to make the `ModelSpec`, imports included: the model is cut into blocks,
        and they are compared with it
first:  of the first round and of building the process, most of which is tracing
later:  of the second round
loss:   the mean training loss of the second round
blocks: of the model, and how many of them the weak client leaves out
memory: the peak of the process, in GB
"""

from __future__ import annotations

import argparse
import math
import sys
import time
from typing import Any

from benchmarks.measure import end_child, in_child, memory_mb

MODELS = ("MobileNetV2", "EfficientNetB0", "ResNet50", "frozen")
ALGORITHMS = ("fedavg", "embracing", "fedpmt", "partial_averaging")
SHAPE, CLASSES, CLIENTS, EXAMPLES = (32, 32, 3), 4, 2, 4
COLUMNS = ("spec", "first", "later", "loss", "blocks", "left out", "memory")


def create(name: str) -> Any:
    """Return the Keras model."""
    import tensorflow as tf

    if name == "frozen":
        base = tf.keras.applications.MobileNetV2(SHAPE, weights=None, include_top=False)
        base.trainable = False
        pooled = tf.keras.layers.GlobalAveragePooling2D()(base.output)
        return tf.keras.Model(base.input, tf.keras.layers.Dense(CLASSES)(pooled))
    builder = getattr(tf.keras.applications, name)
    given = {"weights": None, "classes": CLASSES, "classifier_activation": None}
    return builder(input_shape=SHAPE, **given)


def build(name: str, spec: Any) -> tuple[Any, Any, str]:
    """Return an algorithm's process, the tiers of its clients, and what weak ones leave out."""
    from tff_partial import costs, tiers
    from tff_partial.algorithms import registry
    from tff_partial.core.local_training import LocalTraining

    algorithm = registry.ALGORITHMS[name]
    local = LocalTraining(steps=2, batch_size=2, learning_rate=0.01)
    known = {"tiers": ("strong", "weak"), "population": CLIENTS, "active": CLIENTS}
    params = algorithm.params(local=local, **{need: known[need] for need in algorithm.needs})
    has_tiers = "tiers" in algorithm.needs
    has_cut = has_tiers and not algorithm.tiers_are_rates
    cut = costs.cut_of(tiers.create("weak"), spec, 2).blocks if has_cut else "-"
    return algorithm.build(spec, params), [0, 1] if has_tiers else None, str(cut)


def measure(name: str, algorithm: str) -> dict[str, Any]:
    """Return the figures of a model and an algorithm, in this process.

    Raises:
      ValueError: If a weight or the loss is not finite after training, or nothing has moved.
    """
    import numpy as np
    import tensorflow as tf

    import tff_partial as fl

    spec = fl.ModelSpec(lambda: create(name), SHAPE)
    seconds = {"spec": time.process_time()}
    rng = np.random.default_rng(0)
    images = rng.normal(size=(CLIENTS, EXAMPLES, *SHAPE)).astype(np.float32)
    started = time.process_time()
    process, tier_of, left_out = build(algorithm, spec)
    rounds = fl.simulate(process, [(x, np.arange(EXAMPLES)) for x in images], 2, tiers=tier_of)
    for kind in ("first", "later"):
        result = next(rounds)
        seconds[kind] = time.process_time() - started
        started = time.process_time()
    before, after = (
        [np.asarray(w) for w in tf.nest.flatten(process.get_model_weights(state))]
        for state in (process.initialize(), result.state)
    )
    loss = float(result.metrics["client_work"]["train_loss"])
    is_finite = math.isfinite(loss) and all(np.isfinite(w).all() for w in after)
    if not is_finite or all(np.array_equal(a, b) for a, b in zip(before, after)):
        raise ValueError(f"{name} with {algorithm} must train. Received: loss={loss}")
    return {
        **{kind: f"{value:.1f}" for kind, value in seconds.items()},
        "loss": f"{loss:.3f}",
        "blocks": str(len(spec.instantiate(initial=False).blocks)),
        "left out": left_out,
        "memory": f"{memory_mb('VmHWM') / 1024:.1f}",
    }


def main(argv: list[str]) -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--models", default=",".join(MODELS), help="What is trained.")
    parser.add_argument("--algorithms", default=",".join(ALGORITHMS), help="How.")
    parser.add_argument("--child", help=argparse.SUPPRESS)
    flags = parser.parse_args(argv)
    if flags.child:
        end_child(flags.child, measure(flags.models, flags.algorithms))
    print("".join([f"{'model':16}{'algorithm':20}", *(f"{name:>9}" for name in COLUMNS)]))
    for name in flags.models.split(","):
        for algorithm in flags.algorithms.split(","):
            pair = f"--models={name}", f"--algorithms={algorithm}"
            figures: dict[str, Any] = in_child("benchmarks.applications", *pair)
            cells = "".join(f"{figures[column]:>9}" for column in COLUMNS)
            print(f"{name:16}{algorithm:20}{cells}", flush=True)
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
