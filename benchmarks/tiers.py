"""Time and memory of EmbracingFL's tiers, as ratios to a strong client in one run.

    python -m benchmarks.tiers [--rounds=7] [--json=FILE]

Prints: the time of a local round (forward pass once, ten steps) with a client on every core, as
rounds with more clients than cores have it, and of a client alone, whose backward pass then spreads
over idle cores and whose forward pass cannot; the time of its parts, the analogue of EmbracingFL's
table 8; the time of a round of 16 strong and 112 weak clients, 32 at a time, against
an all-strong one; and the peak memory of a local round, each in a process of its own, above what
that process has used before. Random data: what is measured does not depend on what is learnt.
"""

from __future__ import annotations

import argparse
import ctypes
import functools
import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
from typing import Any, Callable

TIERS = ("strong", "moderate", "weak")
ON_DISK = " (record on disk)"
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
    """The spec, the local training and a client's (x, y)."""
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


def median_seconds(runs: dict[str, Callable[[], Any]], rounds: int) -> dict[str, float]:
    """The median time of each; they take turns, so that other work disturbs all of them alike."""
    times: dict[str, list[float]] = {name: [] for name in runs}
    for run in runs.values():
        run()
    for _ in range(rounds):
        for name, run in runs.items():
            started = time.perf_counter()
            run()
            times[name].append(time.perf_counter() - started)
    return {name: statistics.median(found) for name, found in times.items()}


def rounds_of_tiers(rounds: int) -> dict[str, float]:
    """Seconds of rounds with a client of a tier on every core, with one client, and with 32."""
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
    """Seconds of one batch: forward pass, record and backward pass of each tier."""
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
    found = median_seconds(runs, 5 * rounds)
    for tier in TIERS:
        found[f"backward, {tier}"] -= found[f"forward, {tier}"]
    return found


def peak_of_round(model_name: str, tier: str, record_dir: str = "") -> dict[str, float]:
    """Megabytes that a local round adds to the peak of its process."""
    from tff_partial import runtime
    from tff_partial.algorithms import embracing
    from tff_partial.core import client_data

    runtime.set_default()
    spec, local, (x, y) = create(model_name)
    process = embracing.build(spec, embracing.Params(local, (tier,), record_dir=record_dir))
    state = process.initialize()
    client = client_data.create_record(x, y)
    for _ in range(2):
        process.next(state, [client])
    # What compiling and the kernels' first run left is given back, and the peak forgotten.
    ctypes.CDLL("libc.so.6").malloc_trim(0)
    with open("/proc/self/clear_refs", "w") as file:
        file.write("5")
    before = memory_mb("VmRSS")
    process.next(state, [client])
    return {"peak": memory_mb("VmHWM") - before}


def memory_mb(name: str) -> float:
    """VmRSS (now) or VmHWM (the peak) of this process."""
    with open("/proc/self/status") as file:
        lines = dict(line.split(":", 1) for line in file)
    return int(lines[name].split()[0]) / 1024


def _in_child(*arguments: str) -> dict[str, float]:
    with tempfile.TemporaryDirectory() as folder:
        result = os.path.join(folder, "result.json")
        command = [sys.executable, "-m", "benchmarks.tiers", f"--child={result}", *arguments]
        log, memory = os.path.join(folder, "log"), "--what=memory" in arguments
        with open(log, "w") as output:
            code = subprocess.run(
                command,
                stdout=output,
                stderr=output,
                env={**os.environ, **_EXACT_MEMORY} if memory else None,
                check=False,
            ).returncode
        if code:
            with open(log) as file:
                raise RuntimeError(f"{' '.join(arguments)} failed:\n{file.read()[-2000:]}")
        with open(result) as file:
            return json.load(file)


def measure(rounds: int, kinds: list[str]) -> dict[str, float]:
    """All figures; each kind in a process of its own."""
    figures = {}
    for kind in ("rounds", "passes"):
        if kind in kinds:
            figures |= _in_child(f"--what={kind}", f"--rounds={rounds}")
    for model_name in ("resnet20", "bilstm") if "memory" in kinds else ():
        for tier in TIERS:
            peak = _in_child("--what=memory", f"--model={model_name}", f"--tier={tier}")
            figures[f"memory {model_name}, {tier}"] = peak["peak"]
        with tempfile.TemporaryDirectory() as folder:
            where = ("--what=memory", f"--model={model_name}", "--tier=weak", f"--record={folder}")
            figures[f"memory {model_name}{ON_DISK}, weak"] = _in_child(*where)["peak"]
    return figures


def ratios(figures: dict[str, float]) -> dict[str, float]:
    """Each figure of a weaker tier against the strong one's."""
    found = {
        name: value / figures[f"{name.rsplit(', ', 1)[0]}, strong".replace(ON_DISK, "")]
        for name, value in figures.items()
        if name.endswith((", moderate", ", weak")) and not name.startswith("record")
    }
    mixed = figures.get("round of 4 strong and 28 weak")
    return {**found, **({"mixed round": mixed / figures["round of 32 strong"]} if mixed else {})}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])  # type: ignore[union-attr]
    parser.add_argument("--rounds", type=int, default=7)
    parser.add_argument("--only", default="rounds,passes,memory", help="what to measure")
    parser.add_argument("--json")
    for name in ("--child", "--what", "--model", "--tier", "--record"):
        parser.add_argument(name, help=argparse.SUPPRESS)
    args = parser.parse_args()
    if args.child:
        kinds: dict[str, Callable[[], dict[str, float]]] = {
            "rounds": lambda: rounds_of_tiers(args.rounds),
            "passes": lambda: passes_of_tiers(args.rounds),
            "memory": lambda: peak_of_round(args.model, args.tier, args.record or ""),
        }
        figures = kinds[args.what]()
        with open(args.child, "w") as file:
            json.dump(figures, file)
        os._exit(0)
    figures = measure(args.rounds, args.only.split(","))
    found = ratios(figures)
    print(f"{'':<32}{'':>12} {'of strong':>10}  bar")
    for name, value in figures.items():
        unit = f"{value:.0f} MB" if name.startswith("memory") else f"{1000 * value:.1f} ms"
        ratio = f"{found[name]:.2f}" if name in found else ""
        bar = f"at most {BARS[name]}" if name in BARS else ""
        print(f"{name:<32}{unit:>12} {ratio:>10}  {bar}")
    if "mixed round" in found:
        print(f"{'mixed round':<32}{'':>12} {found['mixed round']:>10.2f}  at most 0.6")
    if args.json:
        with open(args.json, "w") as file:
            json.dump({"figures": figures, "ratios": found}, file, indent=2)


if __name__ == "__main__":
    main()
