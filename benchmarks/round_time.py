"""Time of a FedAvg round: ours against stock TFF and against a loop without any framework.

    python -m benchmarks.round_time [--works=mlp,resnet20] [--rounds=5] [--json=FILE]
    python -m benchmarks.round_time --scaling

The second form times rounds of 10 to 10,000 tiny clients: the cost of a client must not grow.

Every figure is the median of at least five rounds after warm-up; ratios are taken within this
run. Each system runs in a process of its own, one after the other, so that none disturbs another
and its peak memory (its worker's included) can be read.
"""

from __future__ import annotations

import argparse
import dataclasses
import json
import os
import resource
import statistics
import subprocess
import sys
import tempfile
import time
from typing import Any, Callable

SYSTEMS = ("ours", "stock", "bare")
WORKS = ("mlp", "femnist_cnn", "resnet20", "mlp_10")
# Ratio that each work must reach: at least so many times as fast as stock TFF, at most so many
# times the time of the bare loop.
BARS = {"mlp": (8, 1.25), "femnist_cnn": (1.9, 0.9), "resnet20": (1.45, 1.1), "mlp_10": (6, 1.4)}


def ours(work: Any) -> Callable[[], None]:
    from tff_partial import runtime
    from tff_partial.algorithms import fedavg
    from tff_partial.core import client_data

    runtime.set_default()
    process = fedavg.build(work.spec(), fedavg.Params(work.local))
    cohort = [client_data.create_record(x, y, i) for i, (x, y) in enumerate(work.client_data())]
    state = process.initialize()

    def run_round() -> None:
        nonlocal state
        state = process.next(state, cohort).state

    return run_round


def stock(work: Any) -> Callable[[], None]:
    import tensorflow as tf
    import tensorflow_federated as tff

    import models
    from benchmarks import works

    def model_fn() -> Any:
        return tff.learning.models.from_keras_model(
            models.create(work.model, work.input_shape, work.num_classes),
            loss=tf.keras.losses.SparseCategoricalCrossentropy(from_logits=True),
            input_spec=(
                tf.TensorSpec([None, *work.input_shape], tf.float32),
                tf.TensorSpec([None], tf.int32),
            ),
        )

    rate = work.local.learning_rate
    process = tff.learning.algorithms.build_weighted_fed_avg(
        model_fn,
        client_optimizer_fn=tff.learning.optimizers.build_sgdm(rate, work.local.momentum or None),
        server_optimizer_fn=tff.learning.optimizers.build_sgdm(1.0),
    )
    steps = work.local.steps or work.examples // work.local.batch_size
    datasets = [
        tf.data.Dataset.from_tensor_slices((x, y))
        .shuffle(work.examples)
        .batch(work.local.batch_size)
        .map(lambda a, b: (works.scale(a), b))
        .take(steps)
        for x, y in work.client_data()
    ]
    state = process.initialize()

    def run_round() -> None:
        nonlocal state
        state = process.next(state, datasets).state

    return run_round


def bare(work: Any) -> Callable[[], None]:
    import tensorflow as tf

    from benchmarks import works

    tf.config.threading.set_intra_op_parallelism_threads(1)
    return works.create_bare_round(work)


def measure(system: str, work_name: str, rounds: int) -> dict[str, float]:
    """Runs in a process of its own: first round and median of the following ones."""
    import tensorflow as tf  # noqa: F401  (its import is not part of the first round)
    import tensorflow_federated as tff  # noqa: F401

    from benchmarks import works

    started = time.perf_counter()
    run_round = {"ours": ours, "stock": stock, "bare": bare}[system](works.WORKS[work_name])
    run_round()
    first = time.perf_counter() - started
    run_round()
    times = []
    for _ in range(rounds):
        started = time.perf_counter()
        run_round()
        times.append(time.perf_counter() - started)
    return {
        "first_round": first,
        "round": statistics.median(times),
        "peak_mb": peak_memory_mb(),
    }


def scaling(rounds: int) -> dict[str, float]:
    """Milliseconds of a round for each client, by number of clients; one process for all."""
    from benchmarks import works

    tiny = works.WORKS["mlp"]
    figures = {}
    for clients in (10, 100, 1000, 10_000):
        work = dataclasses.replace(tiny, model="softmax", clients=clients, examples=10)
        run_round = ours(work)
        run_round()
        times = []
        for _ in range(rounds if clients < 10_000 else 2):
            started = time.perf_counter()
            run_round()
            times.append(time.perf_counter() - started)
        figures[str(clients)] = 1000 * statistics.median(times) / clients
    return figures


def peak_memory_mb() -> float:
    """Peak memory of this process and of the workers that it started."""
    import psutil

    own = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    children = psutil.Process().children(recursive=True)
    return own + sum(_high_water_mb(child.pid) for child in children)


def _high_water_mb(pid: int) -> float:
    with open(f"/proc/{pid}/status") as file:
        lines = dict(line.split(":", 1) for line in file)
    return int(lines["VmHWM"].split()[0]) / 1024


def _in_child(system: str, work: str, rounds: int) -> dict[str, float]:
    """Output goes to files: TFF's stock worker would keep a pipe open.

    All systems get oneDNN's convolutions, which this project turns on (tff_partial/__init__.py).
    """
    with tempfile.TemporaryDirectory() as folder:
        result, log = os.path.join(folder, "result.json"), os.path.join(folder, "log")
        command = [
            sys.executable,
            "-m",
            "benchmarks.round_time",
            f"--child={system},{work},{result}",
        ]
        with open(log, "w") as output:
            subprocess.run(
                [*command, f"--rounds={rounds}"],
                stdout=output,
                stderr=output,
                stdin=subprocess.DEVNULL,
                env={**os.environ, "TF_ENABLE_ONEDNN_OPTS": "1", "TF_CPP_MIN_LOG_LEVEL": "2"},
                check=False,
            )
        if not os.path.exists(result):
            with open(log) as file:
                raise RuntimeError(f"{system} on {work} failed:\n{file.read()[-2000:]}")
        with open(result) as file:
            return json.load(file)


def _run_child(spec: str, rounds: int) -> None:
    import psutil

    system, work, path = spec.split(",")
    figures = scaling(rounds) if system == "scaling" else measure(system, work, rounds)
    with open(path, "w") as file:
        json.dump(figures, file)
    for child in psutil.Process().children(recursive=True):
        child.terminate()
    os._exit(0)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])  # type: ignore[union-attr]
    parser.add_argument("--works", default=",".join(WORKS))
    parser.add_argument("--systems", default=",".join(SYSTEMS))
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--json")
    parser.add_argument("--scaling", action="store_true")
    parser.add_argument("--child", help=argparse.SUPPRESS)
    args = parser.parse_args()
    if args.child:
        _run_child(args.child, args.rounds)
    if args.scaling:
        for clients, cost in _in_child("scaling", "mlp", args.rounds).items():
            print(f"{clients:>6} tiny clients: {cost:.3f} ms a client")
        return
    rows = {}
    print(f"{'work':<12} {'system':<6} {'round s':>8} {'first s':>8} {'peak MB':>8}")
    for work in args.works.split(","):
        for system in args.systems.split(","):
            figures = rows[f"{work}/{system}"] = _in_child(system, work, args.rounds)
            print(
                f"{work:<12} {system:<6} {figures['round']:>8.3f} {figures['first_round']:>8.2f} "
                f"{figures['peak_mb']:>8.0f}",
                flush=True,
            )
    print_ratios(rows)
    if args.json:
        with open(args.json, "w") as file:
            json.dump(rows, file, indent=2)


def print_ratios(rows: dict[str, dict[str, float]]) -> None:
    for work, (least, most) in BARS.items():
        own = rows.get(f"{work}/ours")
        for system in ("stock", "bare"):
            other = rows.get(f"{work}/{system}")
            if not own or not other:
                continue
            if system == "stock":
                ratio = other["round"] / own["round"]
                verdict = f"{ratio:.2f}x as fast as stock TFF (bar: at least {least})"
            else:
                ratio = own["round"] / other["round"]
                verdict = f"{ratio:.2f}x the time of the bare loop (bar: at most {most})"
            print(f"{work:<12} {verdict}")
        if own and f"{work}/stock" in rows:
            other = rows[f"{work}/stock"]
            print(
                f"{work:<12} first round {other['first_round'] / own['first_round']:.2f}x as fast, "
                f"peak memory {own['peak_mb'] / other['peak_mb']:.2f}x that of stock TFF"
            )


if __name__ == "__main__":
    main()
