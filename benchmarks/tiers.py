"""Time and memory of EmbracingFL's tiers, as ratios to a strong client in one run.

    python -m benchmarks.tiers [--only=rounds,passes,memory] [--rounds=7] [--json=FILE]
    python -m benchmarks.tiers --only=memory --record_precision=bfloat16

rounds: a local round (the forward pass once, ten steps) with a client on every core, as in rounds
        of more clients than cores, and of a client alone, whose backward pass spreads over idle
        cores (its forward pass cannot); a round of 4 strong and 28 weak clients against 32 strong.
passes: the parts of a local round, the analogue of EmbracingFL's table 8.
memory: the peak memory of a local round, in a process of its own, above what that process has used
        before. With --record_precision=bfloat16 the recorded activations take half of it.
Data are random: what is measured does not depend on what is learnt.
"""

from __future__ import annotations

import argparse
import ctypes
import dataclasses
import functools
import tempfile
from typing import Any, Callable

from benchmarks.measure import end_child, in_child, median_seconds, memory_mb, write_json

TIERS = ("strong", "moderate", "weak")
ON_DISK = " (recorded on disk)"
# At most so many times a strong client's.
BARS = {
    "round, moderate": 0.75,
    "round, weak": 0.5,
    "backward, moderate": 0.6,
    "backward, weak": 0.3,
    "mixed round": 0.6,
    "memory resnet20, weak": 0.5,
    "memory bilstm, weak": 0.5,
}


# Blocks go back to the system when they are freed, so that the peak is of what is in use: oneDNN's
# allocator keeps them, as does the C library's for all but large ones. The state of an LSTM after a
# word, of which a step keeps thousands, has 32 KB.
_EXACT_MEMORY = {"TF_ENABLE_ONEDNN_OPTS": "0", "MALLOC_MMAP_THRESHOLD_": "16384"}


def create(model_name: str) -> tuple[Any, Any, Any]:
    """Return the model, the local training and a client's (x, y)."""
    import numpy as np

    from benchmarks import works
    from tff_partial.core.local_training import LocalTraining
    from tff_partial.experiments import bundled

    rng = np.random.default_rng(0)
    architecture = bundled.models.ARCHITECTURES[model_name]
    shape, classes = architecture.input_shape, architecture.num_classes
    if model_name == "bilstm":
        examples = 195  # a client of IMDB with 128 clients
        x = rng.integers(0, 10_000, (examples, 256)).astype(np.int32)
        spec = bundled.create_model(model_name, shape, classes)
    else:
        examples = 320
        x = rng.integers(0, 256, (examples, *shape)).astype(np.uint8)
        options = {"input_dtype": "uint8", "preprocess": works.scale}
        spec = bundled.create_model(model_name, shape, classes, **options)
    local = LocalTraining(steps=10, batch_size=32, learning_rate=0.01, momentum=0.9)
    return spec, local, (x, rng.integers(0, classes, examples).astype(np.int32))


def rounds_of_tiers(rounds: int) -> dict[str, float]:
    """Return the seconds of rounds: a tier's client on every core, one client, and 32 clients."""
    from tff_partial import runtime
    from tff_partial.algorithms import embracing
    from tff_partial.core import client_data
    from tff_partial.runtime.in_process import context as in_process

    runtime.set_default()
    spec, local, (x, y) = create("resnet20")
    process = embracing.build(spec, embracing.Params(local, TIERS))
    state = process.initialize()
    clients = [client_data.create_record(x, y, tier=tier) for tier in range(3)]

    def seconds(cohorts: dict[str, list[Any]], count: int) -> dict[str, float]:
        runs = {name: functools.partial(process.next, state, c) for name, c in cohorts.items()}
        return median_seconds(runs, count)

    cores = in_process.available_cores()
    named = list(zip(TIERS, clients))
    few = {f"round, {tier}": [client] * cores for tier, client in named}
    few |= {f"alone, {tier}": [client] for tier, client in named}
    many = {
        "round of 32 strong": [clients[0]] * 32,
        "round of 4 strong and 28 weak": [clients[0]] * 4 + [clients[2]] * 28,
    }
    return seconds(few, rounds) | seconds(many, max(rounds // 3, 1))


def passes_of_tiers(rounds: int) -> dict[str, float]:
    """Return the seconds of one batch: forward pass, record and backward pass of each tier."""
    from tff_partial import costs, tiers
    from tff_partial.core.lazy import tf
    from tff_partial.layers import parts, recorded

    tf.config.threading.set_intra_op_parallelism_threads(1)
    spec, local, (x, y) = create("resnet20")
    model = spec.instantiate()
    size = local.batch_size
    batch, labels = tf.constant(x[:size]), tf.constant(y[:size])
    runs: dict[str, Callable[[], Any]] = {}
    for tier in TIERS:
        cut = costs.cut_of(tiers.create(tier), spec, size)
        steps = costs.forward_steps(spec, cut, size)
        part = parts.recorded(model, cut, steps, size)
        recorder = recorded.Recorder(model, cut, steps, size, "moving")

        @tf.function
        def record(recorder: Any = recorder) -> Any:
            return recorded.in_memory(recorder, {"x": batch})

        inputs = batch if tier == "strong" else record()

        @tf.function
        def forward(part: Any = part, inputs: Any = inputs) -> Any:
            return part.forward(inputs)

        @tf.function
        def step(part: Any = part, inputs: Any = inputs) -> Any:
            with tf.GradientTape() as tape:
                loss = tf.reduce_mean(model.losses(labels, part.forward(inputs)))
            return tape.gradient(loss, part.variables)

        if tier != "strong":
            runs[f"record, {tier}"] = record
        runs[f"forward, {tier}"] = forward
        runs[f"backward, {tier}"] = step
    seconds = median_seconds(runs, 5 * rounds)
    for tier in TIERS:
        seconds[f"backward, {tier}"] -= seconds[f"forward, {tier}"]
    return seconds


def peak_of_round(
    model_name: str, tier: str, record_dir: str, record_precision: str
) -> dict[str, float]:
    """Return the megabytes that a local round adds to the peak of its process."""
    from tff_partial import runtime
    from tff_partial.algorithms import embracing
    from tff_partial.core import client_data

    runtime.set_default()
    spec, local, (x, y) = create(model_name)
    local = dataclasses.replace(local, record_precision=record_precision)
    process = embracing.build(spec, embracing.Params(local, (tier,), record_dir=record_dir))
    state = process.initialize()
    client = client_data.create_record(x, y)
    for _ in range(2):
        process.next(state, [client])
    # What compiling and the kernels' first run left is given back. Then the many small objects of a
    # round of TensorFlow's, 4 MB in every tier, take their place again, and the peak is forgotten.
    ctypes.CDLL("libc.so.6").malloc_trim(0)
    process.next(state, [client])
    with open("/proc/self/clear_refs", "w") as file:
        file.write("5")
    before = memory_mb("VmRSS")
    process.next(state, [client])
    return {"peak": memory_mb("VmHWM") - before}


def measure(rounds: int, kinds: list[str], record_precision: str) -> dict[str, float]:
    """Return all figures, each kind measured in a process of its own."""
    figures = {}
    for kind in ("rounds", "passes"):
        if kind in kinds:
            figures |= in_child("benchmarks.tiers", f"--only={kind}", f"--rounds={rounds}")
    for model_name in ("resnet20", "bilstm") if "memory" in kinds else ():
        for tier in TIERS:
            figures[f"memory {model_name}, {tier}"] = _peak(model_name, tier, record_precision)
        with tempfile.TemporaryDirectory() as folder:
            on_disk = _peak(model_name, "weak", record_precision, folder)
            figures[f"memory {model_name}{ON_DISK}, weak"] = on_disk
    return figures


def _peak(model_name: str, tier: str, record_precision: str, record_dir: str = "") -> float:
    options = (f"--model={model_name}", f"--tier={tier}", f"--record={record_dir}")
    options += (f"--record_precision={record_precision}",)
    figures = in_child("benchmarks.tiers", "--only=memory", *options, environment=_EXACT_MEMORY)
    return figures["peak"]


def ratios(figures: dict[str, float]) -> dict[str, float]:
    """Return each figure of a weaker tier against the strong one's."""
    of_strong = {
        name: value / figures[f"{name.rsplit(', ', 1)[0]}, strong".replace(ON_DISK, "")]
        for name, value in figures.items()
        if name.endswith((", moderate", ", weak")) and not name.startswith("record")
    }
    mixed = figures.get("round of 4 strong and 28 weak")
    if mixed:
        of_strong["mixed round"] = mixed / figures["round of 32 strong"]
    return of_strong


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])  # type: ignore[union-attr]
    parser.add_argument("--rounds", type=int, default=7, help="Rounds after warm-up.")
    parser.add_argument("--only", default="rounds,passes,memory", help="What to measure.")
    parser.add_argument("--record_precision", default="float32", help="Of recorded activations.")
    parser.add_argument("--json", help="File for the figures.")
    for name in ("--child", "--model", "--tier", "--record"):
        parser.add_argument(name, help=argparse.SUPPRESS)
    args = parser.parse_args()
    if args.child:
        kinds: dict[str, Callable[[], dict[str, float]]] = {
            "rounds": lambda: rounds_of_tiers(args.rounds),
            "passes": lambda: passes_of_tiers(args.rounds),
            "memory": lambda: peak_of_round(
                args.model, args.tier, args.record or "", args.record_precision
            ),
        }
        end_child(args.child, kinds[args.only]())
    figures = measure(args.rounds, args.only.split(","), args.record_precision)
    of_strong = ratios(figures)
    print(f"{'':<32}{'':>12} {'of strong':>10}  bar")
    for name in {**figures, **of_strong}:
        value, ratio = figures.get(name), of_strong.get(name)
        unit = "" if value is None else f"{1000 * value:.1f} ms"
        if value is not None and name.startswith("memory"):
            unit = f"{value:.0f} MB"
        ratio_text = "" if ratio is None else f"{ratio:.2f}"
        bar = f"at most {BARS[name]}" if name in BARS else ""
        print(f"{name:<32}{unit:>12} {ratio_text:>10}  {bar}")
    write_json(args.json, {"figures": figures, "ratios": of_strong})


if __name__ == "__main__":
    main()
