"""Records every algorithm's weights after three rounds, or compares them with a record.

    python -m benchmarks.bits record before.json
    python -m benchmarks.bits compare before.json

For a change that should not change results: record before it, compare after it. Each algorithm
runs on embedded data in each of the settings below; a digest of its final weights is kept. Prints
what differs; the exit code is 1 if anything does.
"""

from __future__ import annotations

import hashlib
import json
import os
import sys
import tempfile

import numpy as np

from tff_partial.algorithms import registry
from tff_partial.cli import run as run_experiment

ROUNDS = 3
COMMON = ("--data=embedded", f"--rounds={ROUNDS}", f"--eval_every={ROUNDS}", "--local_steps=4")
SETTINGS = {
    "plain": ("--task=mnist", "--momentum=0"),
    "momentum": ("--task=mnist", "--momentum=0.9", "--weight_decay=0.001", "--clip_norm=1"),
    "norm": ("--task=cifar10", "--model=resnet20", "--width=0.25", "--clients_per_round=2"),
    "local_cpp": ("--task=mnist", "--momentum=0", "--clients_per_round=4", "--runtime=local_cpp"),
}


def digest(algo: str, setting: str) -> str:
    """Runs an algorithm; returns a digest of its weights."""
    with tempfile.TemporaryDirectory() as folder:
        arguments = (*SETTINGS[setting], f"--algo={algo}", f"--output_dir={folder}/run")
        if run_experiment.main([*COMMON, *arguments]):
            return "failed"
        with np.load(os.path.join(folder, "run", "weights.npz")) as weights:
            found = hashlib.sha256()
            for name in weights.files:
                found.update(weights[name].tobytes())
    return found.hexdigest()[:16]


def main(argv: list[str]) -> int:
    if len(argv) < 3 or argv[1] not in ("record", "compare"):
        print(__doc__, file=sys.stderr)
        return 2
    chosen = argv[3:] or list(SETTINGS)
    found = {f"{a} {s}": digest(a, s) for s in chosen for a in registry.ALGORITHMS}
    if argv[1] == "record":
        with open(argv[2], "w") as file:
            json.dump(found, file, indent=1)
        return 0
    with open(argv[2]) as file:
        before = json.load(file)
    differing = [name for name, value in found.items() if before.get(name) != value]
    print("\n".join(f"differs: {name}" for name in differing) or f"all {len(found)} are the same")
    return bool(differing)


if __name__ == "__main__":
    sys.exit(main(sys.argv))
