"""Time of sub-models and of FedDSE's selection, as ratios in one run; and FedDSE's table 7.

    python -m benchmarks.submodels [--only=steps,selection,table7] [--turns=5]

steps:     a local step (batch 16) at width 1/2, 1/4 and 1/16 against the full one, for the
           pre-activation ResNet18 (CIFAR-10's shape) and the four-convolution CNN (MNIST's), one
           thread, taking turns.
selection: FedDSE's inference pass over all of a client's examples and over 128 of them against the
           local round that follows (two passes, batch 16; 500 examples, 160 for ResNet18).
table7:    operations, memory and bytes for a third of the neurons, batch 8, beside the paper's.
Data are random: what is timed does not depend on what is learnt.
"""

from __future__ import annotations

import argparse
import statistics
import sys
from typing import Any, Callable

from benchmarks.measure import median_seconds

MODELS = {"preact_resnet18": (32, 32, 3), "four_conv_cnn": (28, 28, 1)}
RATES = ("1", "1/2", "1/4", "1/16")
BARS = {
    "preact_resnet18": {"1/2": 0.45, "1/4": 0.2, "1/16": 0.1},
    "four_conv_cnn": {"1/2": 0.45, "1/4": 0.2, "1/16": 0.15},
}
SELECTION_BAR = 0.15
BATCH, STEPS = 16, 8
CLIENT_EXAMPLES = {"preact_resnet18": 160, "four_conv_cnn": 500}


def create_spec(name: str) -> Any:
    import models
    from tff_partial.core import model as model_spec

    shape = MODELS[name]
    return model_spec.ModelSpec(lambda: models.create(name, shape, 10, 1.0, "static"), shape)


def create_record(shape: tuple[int, ...], examples: int) -> Any:
    import numpy as np

    from tff_partial.core import client_data

    rng = np.random.default_rng(0)
    x = rng.normal(size=(examples, *shape)).astype(np.float32)
    return client_data.create_record(x, rng.integers(0, 10, examples)).get_single_element()


def build_training(spec: Any, rate: str, record: Any, **local: Any) -> Callable[[], Any]:
    """Return local training at a width, as a function to be timed."""
    import tensorflow as tf

    from tff_partial import tiers
    from tff_partial.core import local_training
    from tff_partial.layers import parts
    from tff_partial.processes import submodel

    share = tiers.create(rate, are_rates=True).rate
    small = submodel.create_submodel(spec, share, scaler=True).spec.instantiate()
    settings = local_training.LocalTraining(batch_size=BATCH, momentum=0.9, **local)
    train = local_training.build(small, parts.everything(small), settings)
    initial = tf.nest.map_structure(lambda v: tf.random.uniform(v.shape, 0.0, 0.1), small.weights)

    @tf.function
    def run() -> Any:
        return train(initial, record, 0.01)

    return run


def build_selection(spec: Any, record: Any, examples: int) -> Callable[[], Any]:
    """Return FedDSE's inference pass, as a function to be timed."""
    import tensorflow as tf

    from tff_partial.submodels import groups
    from tff_partial.submodels import scores as activations

    model, channels = spec.instantiate(), groups.analyse(spec)
    scores = activations.build_scores(model, channels, examples, 100)

    @tf.function
    def run() -> Any:
        return scores(record["x"], record["seed"])

    return run


def show(label: str, seconds: float, ratio: float | None = None, bar: float | None = None) -> None:
    columns = [f"{label:<44}{1000 * seconds:>10.1f} ms"]
    columns.append(f"{ratio:8.3f}" if ratio is not None else " " * 8)
    columns.append(f"(at most {bar})" if bar is not None else "")
    print("  ".join(columns).rstrip(), flush=True)


def steps(turns: int) -> None:
    for name, shape in reversed(MODELS.items()):
        spec, record = create_spec(name), create_record(shape, STEPS * BATCH)
        runs = {r: build_training(spec, r, record, steps=STEPS) for r in RATES}
        for rate, seconds in (medians := median_seconds(runs, turns)).items():
            label, ratio = f"{name}, step at width {rate}", seconds / medians["1"]
            show(label, seconds / STEPS, ratio, BARS[name].get(rate))


def selection(turns: int) -> None:
    for name, shape in reversed(MODELS.items()):
        spec, record = create_spec(name), create_record(shape, CLIENT_EXAMPLES[name])
        rates = ("15/16", "1/2", "1/4", "1/8", "1/16")
        runs = {r: build_training(spec, r, record, epochs=2) for r in rates}
        runs |= {"all": build_selection(spec, record, 0), "128": build_selection(spec, record, 128)}
        seconds = median_seconds(runs, turns)
        mean = statistics.mean(seconds[rate] for rate in rates)
        for rate in rates:
            show(f"{name}, local round at width {rate}", seconds[rate])
        for kind in ("all", "128"):
            label = f"{name}, selection by {kind} examples"
            ratio = seconds[kind] / seconds["15/16"]
            show(f"{label}, of 15/16", seconds[kind], ratio, SELECTION_BAR)
            show(f"{label}, of the mean", seconds[kind], seconds[kind] / mean)


def table7(turns: int) -> None:
    from tff_partial.recipes import catalog, exact

    ours = exact.feddse_table7()
    for row in catalog.load("feddse/table7").rows:
        print(f"{row.label}: {ours[row.id].text}; paper: {row.paper.text}")


def main(argv: list[str]) -> int:
    parser = argparse.ArgumentParser(description=__doc__.split("\n", maxsplit=1)[0])
    parser.add_argument("--only", default="steps,selection,table7", help="What to print.")
    parser.add_argument("--turns", type=int, default=5, help="Runs after warm-up.")
    args = parser.parse_args(argv)
    import tensorflow as tf

    import tff_partial  # noqa: F401, switches oneDNN on

    tf.config.threading.set_intra_op_parallelism_threads(1)
    tf.config.threading.set_inter_op_parallelism_threads(1)
    parts = {"steps": steps, "selection": selection, "table7": table7}
    for name in args.only.split(","):
        parts[name](args.turns)
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
