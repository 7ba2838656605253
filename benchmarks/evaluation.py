"""Time of an evaluation: ours against a forward loop by hand, over the same examples.

    python -m benchmarks.evaluation [--works=resnet20,bilstm] [--turns=5] [--cpu] [--json=FILE]
    python -m benchmarks.evaluation --kinds [--works=resnet20,bilstm] [--turns=5] [--cpu]
        [--examples=1000]

The loop has two threads, a Keras model and a `tf.function` for each, one intra-op thread, and its
batches in memory as tensors; of its batch sizes the fastest counts. Ours and the loop take turns in
one process; figures are medians. --cpu compares CPU seconds, for a machine on which other programs
run. Random examples: what is timed does not depend on them.

--kinds compares what `--evaluate` asks for with the test of the server's model alone: `clients`,
and `tiers` with sub-models of half, a quarter and an eighth of the channels; they take turns
likewise.
"""

from __future__ import annotations

import argparse
import concurrent.futures
import dataclasses
import functools
import time
from collections.abc import Sequence
from typing import Callable

import numpy as np

import models
from benchmarks.measure import median_seconds, write_json
from tff_partial.algorithms import heterofl
from tff_partial.core import evaluation
from tff_partial.core.lazy import tf
from tff_partial.core.model import ModelSpec
from tff_partial.core.types import Tensor, Weights
from tff_partial.experiments import evaluations

BAR = 1.1  # at most so many times the time of the fastest bare loop
BATCHES = (100, 500)
THREADS = 2


@dataclasses.dataclass(frozen=True)
class Work:
    """A model and how many random examples it is tested on, whose numbers are below `values`."""

    model: str
    width: float
    shape: tuple[int, ...]
    dtype: str
    values: int
    classes: int
    examples: int

    def create(self) -> tf.keras.Sequential:
        return models.create(self.model, self.shape, self.classes, width=self.width)

    def preprocess(self, x: Tensor) -> Tensor:
        return tf.cast(x, tf.float32) / 255.0 if self.dtype == "uint8" else x

    def losses(self, y: Tensor, logits: Tensor) -> Tensor:
        if self.classes > 2:
            return tf.nn.sparse_softmax_cross_entropy_with_logits(y, logits)
        return tf.nn.sigmoid_cross_entropy_with_logits(tf.cast(y, tf.float32), logits[:, 0])

    def data(self) -> tuple[np.ndarray, np.ndarray]:
        rng = np.random.default_rng(0)
        x = rng.integers(0, self.values, (self.examples, *self.shape)).astype(self.dtype)
        return x, rng.integers(0, self.classes, self.examples).astype(np.int32)


WORKS = {
    "resnet20": Work("resnet20", 1.0, (32, 32, 3), "uint8", 256, 10, 10_000),
    "bilstm": Work("bilstm", 0.125, (256,), "int32", 10_000, 2, 25_000),
}


def bare_functions(work: Work, weights: Weights) -> list[Callable[..., Tensor]]:
    """Return a function for each thread, from a batch to the sums of its losses and of its hits."""

    def create(model: tf.keras.Sequential) -> Callable[..., Tensor]:
        @tf.function(
            input_signature=[
                tf.TensorSpec([None, *work.shape], work.dtype),
                tf.TensorSpec([None], tf.int32),
            ]
        )
        def sums(x: Tensor, y: Tensor) -> Tensor:
            logits = model(work.preprocess(x), training=False)
            found = tf.argmax(logits, -1) if work.classes > 2 else logits[:, 0] > 0
            hits = tf.cast(tf.equal(tf.cast(found, tf.int32), y), tf.float32)
            return tf.stack([tf.reduce_sum(work.losses(y, logits)), tf.reduce_sum(hits)])

        values = [*weights.trainable, *weights.non_trainable]
        for variable, value in zip(
            model.trainable_variables + model.non_trainable_variables, values
        ):
            variable.assign(value)
        sums.get_concrete_function()
        return sums

    return [create(work.create()) for _ in range(THREADS)]


def bare_loop(
    functions: Sequence[Callable[..., Tensor]], x: np.ndarray, y: np.ndarray, size: int
) -> Callable[[], np.ndarray]:
    """Return a loop over all examples in batches of a size; it returns mean loss and accuracy."""
    starts = range(0, len(y), size)
    batches = [(tf.constant(x[i : i + size]), tf.constant(y[i : i + size])) for i in starts]
    pool = concurrent.futures.ThreadPoolExecutor(len(functions))

    def run() -> np.ndarray:
        waiting = iter(batches)

        def one(function: Callable[..., Tensor]) -> list[np.ndarray]:
            return [function(*batch).numpy() for batch in waiting]

        sums = [each for share in pool.map(one, functions) for each in share]
        return np.sum(sums, axis=0, dtype=np.float64) / len(y)

    return run


def compare(work: Work, turns: int, clock: Callable[[], float]) -> dict[str, float]:
    """Return the median seconds of ours and of the bare loop with each of its batch sizes.

    Raises:
      RuntimeError: If they do not find the same loss and accuracy.
    """
    x, y = work.data()
    spec = ModelSpec(work.create, work.shape, work.dtype, preprocess=work.preprocess)
    weights = spec.instantiate().weights
    functions = bare_functions(work, weights)
    evaluate = evaluation.build(spec, x, y)
    runs = {f"bare, batches of {size}": bare_loop(functions, x, y, size) for size in BATCHES}
    ours = evaluate(weights)
    found = [ours.loss, ours.metrics["accuracy"]]
    for name, run in runs.items():
        bare = run()
        if not np.allclose(bare, found, rtol=1e-5, atol=0):
            raise RuntimeError(f"{name} must find the same. Received: {bare} and {found}")
    return median_seconds({"ours": lambda: evaluate(weights), **runs}, turns, clock)


def compare_kinds(work: Work, turns: int, clock: Callable[[], float]) -> dict[str, float]:
    """Return the median seconds of the test of the server's model, and with clients or tiers."""
    x, y = work.data()
    spec = ModelSpec(work.create, work.shape, work.dtype, preprocess=work.preprocess)
    weights = tf.nest.map_structure(lambda v: v.numpy(), spec.instantiate().weights)
    params = heterofl.Params(tiers=("1/2", "1/4", "1/8"))
    deployed = evaluations.deployed_by(heterofl.ALGORITHM, spec, params, params.tiers, x[:1])
    labels = np.array_split(y, 100)
    kinds = {
        "server": evaluations.build(spec, x, y),
        "server,clients": evaluations.build(spec, x, y, labels=labels),
        "server,tiers": evaluations.build(spec, x, y, deployed),
    }
    runs = {name: functools.partial(evaluate, weights) for name, evaluate in kinds.items()}
    return median_seconds(runs, turns, clock)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])  # type: ignore[union-attr]
    parser.add_argument("--works", default=",".join(WORKS), help="What is tested.")
    parser.add_argument("--turns", type=int, default=5, help="Evaluations after warm-up.")
    parser.add_argument("--kinds", action="store_true", help="Compare kinds of evaluation.")
    parser.add_argument("--examples", type=int, help="Fewer than by default.")
    parser.add_argument("--cpu", action="store_true", help="Compare CPU seconds.")
    parser.add_argument("--json", help="File for the figures.")
    args = parser.parse_args()
    tf.config.threading.set_intra_op_parallelism_threads(1)
    clock = time.process_time if args.cpu else time.perf_counter
    figures = {}
    for name in args.works.split(","):
        measure = compare_kinds if args.kinds else compare
        work = WORKS[name]
        work = dataclasses.replace(work, examples=args.examples or work.examples)
        seconds = figures[name] = measure(work, args.turns, clock)
        for system, value in seconds.items():
            print(f"{name:<9} {system:<20} {value:>7.3f} s", flush=True)
        if args.kinds:
            for kind in ("server,clients", "server,tiers"):
                print(f"{name:<9} {kind}: {seconds[kind] / seconds['server']:.2f}x server")
            continue
        fastest = min(value for system, value in seconds.items() if system != "ours")
        print(f"{name:<9} {seconds['ours'] / fastest:.2f}x the fastest loop (bar: at most {BAR})")
    write_json(args.json, figures)


if __name__ == "__main__":
    main()
