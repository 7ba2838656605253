"""Time of a FedAvg round: ours against stock TFF and against a loop without any framework.

    python -m benchmarks.round_time [--works=mlp,resnet20] [--rounds=5] [--json=FILE]
    python -m benchmarks.round_time --scaling
    python -m benchmarks.round_time --precision=bfloat16 [--works=femnist_cnn,resnet20]

The second form times rounds of 10 to 10,000 tiny clients: the cost of a client must not grow. The
third compares our rounds in two precisions, which take turns in one process.

Figures are medians of at least five rounds after warm-up. Each system runs in a process of its own,
one after the other, so that none disturbs another and its peak memory (its worker's included) can
be read.
"""

from __future__ import annotations

import argparse
import dataclasses
import re
import resource
import time
from typing import Any, Callable

from benchmarks.measure import end_child, in_child, median_seconds, memory_mb, write_json

SYSTEMS = ("ours", "stock", "bare")
WORKS = ("mlp", "femnist_cnn", "resnet20", "mlp_10")
# At least so many times as fast as stock TFF, at most so many times the time of the bare loop.
BARS = {"mlp": (8, 1.25), "femnist_cnn": (1.9, 0.9), "resnet20": (1.45, 1.1), "mlp_10": (6, 1.4)}


# A round in bfloat16 is at least so many times as fast as in float32, with instructions for it.
PRECISION_BARS = {"femnist_cnn": 1.45, "resnet20": 1.35}


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
    """Return the seconds of the first round and the median of the later ones, and peak memory."""
    import tensorflow as tf  # noqa: F401  (its import is not part of the first round)
    import tensorflow_federated as tff  # noqa: F401

    from benchmarks import works

    started = time.perf_counter()
    run_round = {"ours": ours, "stock": stock, "bare": bare}[system](works.WORKS[work_name])
    run_round()
    first = time.perf_counter() - started
    seconds = median_seconds({system: run_round}, rounds)[system]
    return {"first_round": first, "round": seconds, "peak_mb": peak_memory_mb()}


def scaling(rounds: int) -> dict[str, float]:
    """Return the milliseconds of a round for each client, by number of clients."""
    from benchmarks import works

    figures = {}
    for clients in (10, 100, 1000, 10_000):
        tiny = {"model": "softmax", "clients": clients, "examples": 10}
        run_round = ours(dataclasses.replace(works.WORKS["mlp"], **tiny))
        count = rounds if clients < 10_000 else 2
        seconds = median_seconds({"ours": run_round}, count)["ours"]
        figures[str(clients)] = 1000 * seconds / clients
    return figures


def precisions(work_name: str, precision: str, rounds: int) -> dict[str, float]:
    """Return the seconds of a round in float32 and in a shorter type."""
    from benchmarks import works

    work, runs = works.WORKS[work_name], {}
    for name in ("float32", precision):
        local = dataclasses.replace(work.local, precision=name)
        runs[name] = ours(dataclasses.replace(work, local=local))
    return median_seconds(runs, rounds)


def has_instructions(precision: str) -> bool:
    """Return whether the CPU has instructions for a type (on Linux)."""
    with open("/proc/cpuinfo") as file:
        flags = set(re.findall(r"\w+", file.read()))
    names = {"bfloat16": {"avx512_bf16", "amx_bf16"}, "float16": {"avx512_fp16", "amx_fp16"}}
    return bool(flags & names[precision])


def compare_precisions(names: list[str], precision: str, rounds: int) -> dict[str, Any]:
    """Print and return the seconds of rounds; nothing where the CPU has no instructions for it."""
    if not has_instructions(precision):
        print(f"this CPU has no instructions for {precision}: nothing to compare")
        return {}
    rows = {}
    for work in names:
        options = (f"--precision={precision}", f"--works={work}", f"--rounds={rounds}")
        figures = rows[work] = _in_child(*options)
        ratio = figures["float32"] / figures[precision]
        bar = PRECISION_BARS.get(work) if precision == "bfloat16" else None
        aim = f" (bar: at least {bar})" if bar else ""
        seconds = f"{figures['float32']:.3f} s in float32, {figures[precision]:.3f} in {precision}"
        print(f"{work:<12} {seconds}: {ratio:.2f}x as fast{aim}", flush=True)
    return rows


def peak_memory_mb() -> float:
    """Return the peak memory of this process and of the workers that it started."""
    import psutil

    own = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    children = psutil.Process().children(recursive=True)
    return own + sum(memory_mb("VmHWM", child.pid) for child in children)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])  # type: ignore[union-attr]
    parser.add_argument("--works", default=",".join(WORKS), help="What is trained.")
    parser.add_argument("--systems", default=",".join(SYSTEMS), help="What is compared.")
    parser.add_argument("--rounds", type=int, default=5, help="Rounds after warm-up.")
    parser.add_argument("--json", help="File for the figures.")
    parser.add_argument("--scaling", action="store_true", help="Vary the number of clients.")
    parser.add_argument("--precision", help="Compare our rounds in this type with float32.")
    parser.add_argument("--child", help=argparse.SUPPRESS)
    args = parser.parse_args()
    if args.child and args.scaling:
        end_child(args.child, scaling(args.rounds))
    if args.child and args.precision:
        end_child(args.child, precisions(args.works, args.precision, args.rounds))
    if args.child:
        end_child(args.child, measure(args.systems, args.works, args.rounds))
    if args.scaling:
        for clients, cost in _in_child("--scaling", f"--rounds={args.rounds}").items():
            print(f"{clients:>6} tiny clients: {cost:.3f} ms a client")
        return
    if args.precision:
        rows = compare_precisions(args.works.split(","), args.precision, args.rounds)
        write_json(args.json, rows)
        return
    rows = {}
    print(f"{'work':<12} {'system':<6} {'round s':>8} {'first s':>8} {'peak MB':>8}")
    for work in args.works.split(","):
        for system in args.systems.split(","):
            options = (f"--systems={system}", f"--works={work}", f"--rounds={args.rounds}")
            figures = rows[f"{work}/{system}"] = _in_child(*options)
            print(
                f"{work:<12} {system:<6} {figures['round']:>8.3f} {figures['first_round']:>8.2f} "
                f"{figures['peak_mb']:>8.0f}",
                flush=True,
            )
    print_ratios(rows)
    write_json(args.json, rows)


def _in_child(*arguments: str) -> dict[str, float]:
    # All systems get oneDNN's convolutions, which this project turns on (tff_partial/__init__.py).
    environment = {"TF_ENABLE_ONEDNN_OPTS": "1", "TF_CPP_MIN_LOG_LEVEL": "2"}
    return in_child("benchmarks.round_time", *arguments, environment=environment)


def print_ratios(rows: dict[str, dict[str, float]]) -> None:
    for work, (least, most) in BARS.items():
        own, stock_row, bare_row = (rows.get(f"{work}/{system}") for system in SYSTEMS)
        if own and stock_row:
            ratio = stock_row["round"] / own["round"]
            print(f"{work:<12} {ratio:.2f}x as fast as stock TFF (bar: at least {least})")
        if own and bare_row:
            ratio = own["round"] / bare_row["round"]
            print(f"{work:<12} {ratio:.2f}x the time of the bare loop (bar: at most {most})")
        if own and stock_row:
            first = stock_row["first_round"] / own["first_round"]
            memory = own["peak_mb"] / stock_row["peak_mb"]
            print(
                f"{work:<12} first round {first:.2f}x as fast, "
                f"peak memory {memory:.2f}x that of stock TFF"
            )


if __name__ == "__main__":
    main()
