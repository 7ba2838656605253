"""Models of `keras.applications`, without weights, trained with several algorithms.

    python -m benchmarks.applications [--models=MobileNetV2,...] [--algorithms=fedavg,...]

Images of 32x32, 4 classes; two clients of four random images, one round of two local steps of two
images and another one. With tiers the first client is strong and the second weak: it trains what
is left at a fifth of the memory, or a fifth of the channels. `frozen` is a new head on a
MobileNetV2 with `trainable = False`. Sub-models (`--algorithms=heterofl`) can be asked for. Every
model has a process of its own. Processor seconds, which
another program's load does not change:

spec:   to make the `ModelSpec`: the model is cut into blocks, and they are compared with it
first:  to build the process and run the first round; most of it is tracing
later:  to run the second round
loss:   the mean training loss of the second round
blocks: of the model, and how many of them the weak client leaves out
"""

from __future__ import annotations

import argparse
import functools
import math
import subprocess
import sys
import time
from typing import Any

MODELS = ("MobileNetV2", "EfficientNetB0", "ResNet50", "frozen")
ALGORITHMS = ("fedavg", "embracing", "fedpmt", "partial_averaging")
SHAPE, CLASSES, CLIENTS, EXAMPLES = (32, 32, 3), 4, 2, 4
COLUMNS = ("spec", "first", "later", "loss", "blocks", "left out")


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
    # Without clipping EfficientNetB0 diverges on random images, in plain Keras too.
    local = LocalTraining(steps=2, batch_size=2, learning_rate=0.01, clip_norm=1.0)
    known = {"tiers": ("strong", "weak"), "population": CLIENTS, "active": CLIENTS}
    params = algorithm.params(local=local, **{need: known[need] for need in algorithm.needs})
    has_tiers = "tiers" in algorithm.needs
    has_cut = has_tiers and not algorithm.tiers_are_rates
    cut = costs.cut_of(tiers.create("weak"), spec, 2).blocks if has_cut else "-"
    return algorithm.build(spec, params), [0, 1] if has_tiers else None, str(cut)


@functools.cache
def create_spec(name: str) -> tuple[Any, float, int]:
    """Return the `ModelSpec`, how long it took and the number of blocks."""
    import tensorflow as tf

    import tff_partial as fl

    started = time.process_time()
    spec = fl.ModelSpec(lambda: create(name), SHAPE)
    seconds = time.process_time() - started
    with tf.Graph().as_default():
        return spec, seconds, len(spec.instantiate(initial=False).blocks)


def measure(name: str, algorithm: str) -> dict[str, str]:
    """Return the figures of a model and an algorithm.

    Raises:
      ValueError: If a weight or the loss is not finite after training, or nothing has moved.
    """
    import numpy as np
    import tensorflow as tf

    import tff_partial as fl

    spec, seconds_of_spec, blocks = create_spec(name)
    seconds = {"spec": seconds_of_spec}
    images = np.random.default_rng(0).normal(size=(CLIENTS, EXAMPLES, *SHAPE)).astype(np.float32)
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
        "blocks": str(blocks),
        "left out": left_out,
    }


def main(argv: list[str]) -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--models", default=",".join(MODELS), help="What is trained.")
    parser.add_argument("--algorithms", default=",".join(ALGORITHMS), help="How.")
    flags = parser.parse_args(argv)
    import tff_partial  # noqa: F401, before TensorFlow, whose log lines it keeps away

    names = flags.models.split(",")
    for name in names if len(names) > 1 else ():
        command = [sys.executable, "-m", "benchmarks.applications", f"--models={name}"]
        subprocess.run([*command, f"--algorithms={flags.algorithms}"], check=True)
    if len(names) == 1:
        print("".join([f"{'':16}{'':20}", *(f"{column:>9}" for column in COLUMNS)]))
        for algorithm in flags.algorithms.split(","):
            figures = measure(names[0], algorithm)
            cells = "".join(f"{figures[column]:>9}" for column in COLUMNS)
            print(f"{names[0]:16}{algorithm:20}{cells}", flush=True)
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
