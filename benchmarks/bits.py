"""Records every algorithm's weights after three rounds, or compares them with a record.

    python -m benchmarks.bits record before.json
    python -m benchmarks.bits compare before.json [setting ...]

For a change that should not change results: record before it, compare after it. Each algorithm
runs on embedded data in each setting below, which cover all runtimes; a digest of its final weights
is kept. Prints what differs; the exit code is 1 if anything does. `ray` must give the bits of
`plain` and is compared with its record; it needs Ray (`make ray`).
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
import sys
import tempfile
from collections.abc import Iterator

import numpy as np
import portpicker

from tff_partial.algorithms import registry
from tff_partial.cli import run as run_experiment
from tff_partial.runtime.workers import process

ROUNDS = 3
COMMON = ("--data=embedded", f"--rounds={ROUNDS}", f"--eval_every={ROUNDS}", "--local_steps=4")
SETTINGS = {
    "plain": ("--task=mnist", "--momentum=0"),
    "momentum": ("--task=mnist", "--momentum=0.9", "--weight_decay=0.001", "--clip_norm=1"),
    "norm": ("--task=cifar10", "--model=resnet20", "--width=0.25", "--clients_per_round=2"),
    "ray": ("--task=mnist", "--momentum=0", "--runtime=ray", "--ray_actors=2"),
    "local_cpp": ("--task=mnist", "--momentum=0", "--clients_per_round=4", "--runtime=local_cpp"),
    "remote": ("--task=mnist", "--momentum=0", "--clients_per_round=4", "--runtime=remote"),
}


@contextlib.contextmanager
def flags_of(setting: str) -> Iterator[tuple[str, ...]]:
    """Yield the flags of a setting; for `remote`, start a worker on this host and stop it again."""
    if setting != "remote":
        yield SETTINGS[setting]
        return
    port = portpicker.pick_unused_port()
    worker = process.WorkerProcess(process.worker_command(port), port)
    try:
        yield (*SETTINGS[setting], f"--workers=localhost:{port}")
    finally:
        worker.stop()


def digest(algo: str, setting: str) -> str:
    """Run an algorithm and return a digest of its weights."""
    with tempfile.TemporaryDirectory() as folder, flags_of(setting) as flags:
        if run_experiment.main([*COMMON, *flags, f"--algo={algo}", f"--output_dir={folder}/run"]):
            return "failed"
        content = hashlib.sha256()
        with np.load(os.path.join(folder, "run", "weights.npz")) as weights:
            for name in weights.files:
                content.update(weights[name].tobytes())
    return content.hexdigest()[:16]


def _recorded_as(name: str) -> str:
    """Return what a setting of an algorithm is compared with."""
    algo, setting = name.split()
    return f"{algo} plain" if setting == "ray" else name


def main(argv: list[str]) -> int:
    if len(argv) < 3 or argv[1] not in ("record", "compare"):
        print(__doc__, file=sys.stderr)
        return 2
    settings = argv[3:] or list(SETTINGS)
    digests = {f"{a} {s}": digest(a, s) for s in settings for a in registry.ALGORITHMS}
    if argv[1] == "record":
        with open(argv[2], "w") as file:
            json.dump(digests, file, indent=1)
        return 0
    with open(argv[2]) as file:
        before = json.load(file)
    recorded = {name: before.get(_recorded_as(name)) for name in digests}
    differing = [name for name, value in digests.items() if recorded[name] != value]
    for name in differing:
        print(f"differs: {name}" if recorded[name] else f"not recorded: {name}")
    if not differing:
        print(f"all {len(digests)} are the same")
    return bool(differing)


if __name__ == "__main__":
    sys.exit(main(sys.argv))
