"""A round on Ray actors against one in this process: time, bytes, start.

    python -m benchmarks.hosts [--works=mlp,mlp_10,resnet20] [--rounds=5] [--json=FILE]
    python -m benchmarks.hosts --constants

The first form: two actors of one thread against `in_process` with two threads, in turns, in one
process; a median of so many rounds after one to warm up. It prints the ratio of the times, that of
the processor time of everything that takes part (which other programs disturb less), what the
driver puts into the object store in a round, and what a start costs beyond `in_process`. Weights
must be the same, bit for bit.

The second form measures the constants of docs/scaling.md. Memory over many rounds is measured by
`benchmarks.population`. Needs Ray (`make ray`).
"""

from __future__ import annotations

import argparse
import os
import statistics
import time
from typing import Any, Callable

from benchmarks.measure import end_child, in_child, write_json

WORKS = ("mlp", "mlp_10", "resnet20")
BARS = {"mlp": 1.5, "mlp_10": 1.8, "resnet20": 1.05}  # times in_process's round, at most
START = 15.0  # seconds for Ray, two actors and the first round, beyond in_process's first round
ACTORS = 2
ENVIRONMENT = {"TF_ENABLE_ONEDNN_OPTS": "1", "TF_CPP_MIN_LOG_LEVEL": "3"}


def processor_seconds() -> float:
    """Return the processor time of this process and of those that it started and that are there."""
    import psutil

    own = psutil.Process()
    times = [process.cpu_times() for process in (own, *own.children(recursive=True))]
    return sum(t.user + t.system for t in times)


class Rounds:
    """Rounds of a process on a context."""

    def __init__(self, context: Any, process: Any, cohort: list[Any]) -> None:
        self._context, self._process, self._cohort = context, process, cohort
        self.state = self._run(process.initialize)

    def __call__(self) -> None:
        self.state = self._run(self._process.next, self.state, self._cohort).state

    def _run(self, computation: Callable[..., Any], *arguments: Any) -> Any:
        import tensorflow_federated as tff

        with tff.framework.get_context_stack().install(self._context):
            return computation(*arguments)


def same_weights(first: Rounds, second: Rounds) -> bool:
    import numpy as np

    pairs = [r.state.global_model_weights.trainable for r in (first, second)]
    return all(np.array_equal(a, b) for a, b in zip(*pairs))


def compare(work_name: str, rounds: int) -> dict[str, float]:
    """Return the figures of a work on both runtimes."""
    from benchmarks import works
    from tff_partial import runtime
    from tff_partial.algorithms import fedavg
    from tff_partial.core import client_data, lazy

    lazy.load()
    runtime.configure("in_process")
    work = works.WORKS[work_name]
    process = fedavg.build(work.spec(), fedavg.Params(work.local))
    cohort = [client_data.create_record(x, y, i) for i, (x, y) in enumerate(work.client_data())]
    figures: dict[str, float] = {}
    runs: dict[str, Rounds] = {}
    contexts: dict[str, Any] = {}
    options = {
        "in_process": {"client_parallelism": ACTORS},
        "ray": {"ray": runtime.RayOptions(actors=ACTORS)},
    }
    for name, option in options.items():
        started = time.perf_counter()
        contexts[name] = runtime.create(name, **option)  # type: ignore[arg-type]
        figures[f"{name}_start"] = time.perf_counter() - started
        runs[name] = Rounds(contexts[name], process, cohort)
        runs[name]()
        figures[f"{name}_first"] = time.perf_counter() - started
    times: dict[str, list[float]] = {name: [] for name in runs}
    spent: dict[str, list[float]] = {name: [] for name in runs}
    for number in range(rounds + 1):
        for name, run in runs.items():
            put, cpu, started = contexts["ray"].bytes_put, processor_seconds(), time.perf_counter()
            run()
            if number:  # the one before warms up
                times[name].append(time.perf_counter() - started)
                spent[name].append(processor_seconds() - cpu)
        figures["bytes_put"] = contexts["ray"].bytes_put - put
    for name in runs:
        figures[name] = statistics.median(times[name])
        figures[f"{name}_cpu"] = statistics.median(spent[name])
    figures["same"] = same_weights(*runs.values())
    figures["weights"] = sum(a.nbytes for a in runs["ray"].state.global_model_weights.trainable)
    contexts["ray"].close()
    return figures


def show(work: str, row: dict[str, float]) -> None:
    ratio, cpu = row["ray"] / row["in_process"], row["ray_cpu"] / row["in_process_cpu"]
    print(
        f"{work:<9} {row['ray']:.3f} s on {ACTORS} actors, {row['in_process']:.3f} in_process: "
        f"{ratio:.2f}x the time (bar: at most {BARS[work]}), {cpu:.2f}x the processor time; "
        f"{'same bits' if row['same'] else 'OTHER BITS'}"
    )
    beyond = row["ray_first"] - row["in_process_first"]
    print(
        f"{work:<9} start: Ray and actors {row['ray_start']:.1f} s, all up to the first round "
        f"{beyond:.1f} s beyond in_process (bar: at most {START:.0f}); put in a later round: "
        f"{row['bytes_put'] / 1e6:.2f} MB, weights {row['weights'] / 1e6:.2f} MB",
        flush=True,
    )


def constants() -> dict[str, float]:
    """Return what docs/scaling.md computes with, in seconds."""
    import numpy as np
    import ray

    from benchmarks import works
    from tff_partial import runtime
    from tff_partial.core import client_data, lazy
    from tff_partial.runtime.in_process import folds
    from tff_partial.runtime.ray import wire

    lazy.load()
    import tensorflow as tf

    def seconds(run: Callable[[], Any], times: int = 200) -> float:
        run()
        started = time.process_time()
        for _ in range(times):
            run()
        return (time.process_time() - started) / times

    megabyte = np.zeros(2**18, np.float32)
    fold = folds.SumFold([0], [tf.constant(megabyte)])
    x, y = works.WORKS["mlp"].client_data()[0]
    variant = tf.data.experimental.to_variant(client_data.create_record(x, y))
    packed = wire.pack_sequence(variant)
    size = wire.size_of([packed]) / 2**20
    context: Any = runtime.create("ray", ray=runtime.RayOptions(actors=1))

    @ray.remote(num_cpus=0)
    class Echo:
        def small(self) -> None: ...

        def large(self) -> Any:
            return megabyte

    echo = Echo.remote()
    figures = {
        "fold a MB": seconds(lambda: fold.add([megabyte])),
        "put a MB": seconds(lambda: ray.put(megabyte)),
        "pack and hash a MB of data": seconds(lambda: wire.digest(wire.pack_sequence(variant)))
        / size,
        "call": seconds(lambda: ray.get(echo.small.remote())),
        "call with a result of a MB": seconds(lambda: fold.add([ray.get(echo.large.remote())])),
    }
    context.close()
    return figures


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])  # type: ignore[union-attr]
    parser.add_argument("--works", default=",".join(WORKS), help="What is trained.")
    parser.add_argument("--rounds", type=int, default=5, help="Rounds after warm-up.")
    parser.add_argument("--constants", action="store_true", help="Measure those of scaling.md.")
    parser.add_argument("--json", help="File for the figures.")
    parser.add_argument("--child", help=argparse.SUPPRESS)
    args = parser.parse_args()
    if args.child and args.constants:
        end_child(args.child, constants())
    if args.child:
        end_child(args.child, compare(args.works, args.rounds))
    print(f"load of this machine before: {os.getloadavg()[0]:.1f} on {os.cpu_count()} processors")
    rows: dict[str, Any] = {}
    if args.constants:
        rows = in_child("benchmarks.hosts", "--constants", environment=ENVIRONMENT)
        for name, value in rows.items():
            print(f"{name:<28} {1000 * value:.2f} ms of the driver's processor time")
    else:
        for work in args.works.split(","):
            flags = (f"--works={work}", f"--rounds={args.rounds}")
            rows[work] = in_child("benchmarks.hosts", *flags, environment=ENVIRONMENT)
            show(work, rows[work])
    write_json(args.json, rows)


if __name__ == "__main__":
    main()
