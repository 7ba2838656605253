"""Time from a command to the end of its first round, as ratios in one run.

    python -m benchmarks.startup [--only=import,resnet20,imdb,feddse] [--turns=3] [--json=FILE]

import:   `import tff_partial` alone.
resnet20: FedAvg with ResNet20, 8 clients of 10 steps of 32, against a loop by hand (works.py) that
          does the same work, in a process of its own.
imdb:     EmbracingFL's demo, against this project as it was at revision e5e827c.
feddse:   FedDSE with its ten rates on the pre-activation ResNet18, against that revision, once by
          default: the old one takes a minute.
Seconds are those of whole commands: imports, tracing, compilation, one round, its evaluation,
files and curves. Commands take turns; figures are medians. Data are embedded, or random in the loop
by hand. The old revision runs in a git worktree of its own, in the same environment.
"""

from __future__ import annotations

import argparse
import contextlib
import pathlib
import statistics
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from typing import NamedTuple, Optional

from benchmarks.measure import CommandCost, run_command, write_json

ROOT = pathlib.Path(__file__).resolve().parents[1]
OLD = "e5e827c"
RUNS = {
    "resnet20": (
        "--task=cifar10 --algo=fedavg --model=resnet20 --clients=8 --clients_per_round=8 "
        "--partition=iid --local_steps=10 --batch_size=32 --learning_rate=0.01 --weight_decay=0"
    ),
    "imdb": "--task=imdb --algo=embracing",
    "feddse": (
        "--task=cifar10 --algo=feddse --model=preact_resnet18 --capacities=feddse --partition=iid "
        "--clients=16 --clients_per_round=4 --local_steps=2 --batch_size=16"
    ),
}
# A folder for compiled computations: a second run starts from what the first one left there.
CACHE_FLAG = "compile_cache"
_BARE = """
import tensorflow as tf
from benchmarks import works
tf.config.threading.set_intra_op_parallelism_threads(1)
works.create_bare_round(works.WORKS["resnet20"])()
"""
_IMPORT = "import tff_partial"


class Bar(NamedTuple):
    """A figure of one command, at most `limit` times that of another, or at most so much."""

    label: str
    command: str
    against: Optional[str]
    limit: float
    figure: str = "seconds"


BARS = {
    "import": (Bar("import tff_partial", "import", None, 0.3),),
    "resnet20": (Bar("ResNet20, of the loop by hand", "resnet20", "resnet20, by hand", 1.3),),
    "imdb": (
        Bar(f"IMDB, of {OLD}", "imdb", f"imdb, {OLD}", 0.5),
        Bar(f"IMDB with a warm cache, of {OLD}", "imdb, warm", f"imdb, {OLD}", 0.35),
    ),
    "feddse": (
        Bar(f"FedDSE, of {OLD}", "feddse", f"feddse, {OLD}", 0.4),
        Bar(f"FedDSE's memory, of {OLD}", "feddse", f"feddse, {OLD}", 0.5, "megabytes"),
    ),
}


@contextlib.contextmanager
def old_revision(folder: pathlib.Path) -> Iterator[pathlib.Path]:
    """Yield a worktree of the old revision, which is removed afterwards."""
    tree, git = folder / OLD, ["git", "-C", str(ROOT), "worktree"]
    subprocess.run([*git, "add", "--quiet", "--detach", str(tree), OLD], check=True)
    try:
        yield tree
    finally:
        subprocess.run([*git, "remove", "--force", str(tree)], check=True)


def run(tree: pathlib.Path, name: str, *more: str) -> CommandCost:
    """Run one round of `RUNS[name]` in a checkout of this project."""
    with tempfile.TemporaryDirectory() as folder:
        flags = [*RUNS[name].split(), "--rounds=1", "--data=embedded", *more]
        command = [sys.executable, "run_experiment.py", *flags, f"--output_dir={folder}/run"]
        return run_command(command, str(tree))


def run_code(code: str) -> CommandCost:
    return run_command([sys.executable, "-c", code], str(ROOT))


def run_warm(name: str) -> CommandCost:
    """Run a command twice with the same cache; return the second."""
    with tempfile.TemporaryDirectory() as cache:
        run(ROOT, name, f"--{CACHE_FLAG}={cache}")
        return run(ROOT, name, f"--{CACHE_FLAG}={cache}")


def run_all(part: str, old: pathlib.Path) -> dict[str, CommandCost]:
    """Run the commands of a part once each."""
    if part == "import":
        return {"import": run_code(_IMPORT)}
    costs = {part: run(ROOT, part), f"{part}, {OLD}": run(old, part)}
    if part == "resnet20":
        costs["resnet20, by hand"] = run_code(_BARE)
    if part == "imdb" and has_cache():
        costs["imdb, warm"] = run_warm("imdb")
    return costs


def has_cache() -> bool:
    from tff_partial.experiments import flags

    return CACHE_FLAG in flags.EXECUTING


def medians(turns: Sequence[Mapping[str, CommandCost]]) -> dict[str, CommandCost]:
    return {
        name: CommandCost(*map(statistics.median, zip(*(turn[name] for turn in turns))))
        for name in turns[0]
    }


def show(part: str, costs: Mapping[str, CommandCost]) -> dict[str, float]:
    """Print the costs and the ratios with their bars; return the ratios."""
    for name, (seconds, cpu, megabytes) in costs.items():
        print(f"{name:<24}{seconds:>8.2f} s{cpu:>8.2f} CPU s{megabytes:>8.0f} MB", flush=True)
    ratios = {}
    for label, command, against, limit, figure in BARS[part]:
        if command not in costs:
            continue
        value = getattr(costs[command], figure)
        ratios[label] = value / getattr(costs[against], figure) if against else value
        print(f"{label:<40}{ratios[label]:8.2f}  (at most {limit})", flush=True)
    return ratios


def main(argv: Sequence[str]) -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--only", default=",".join(BARS), help="What to run.")
    parser.add_argument("--turns", type=int, help="Runs of each command; 3, of FedDSE 1.")
    parser.add_argument("--json", help="File for the ratios.")
    args = parser.parse_args(argv)
    ratios: dict[str, float] = {}
    with tempfile.TemporaryDirectory() as folder, old_revision(pathlib.Path(folder)) as old:
        for part in args.only.split(","):
            turns = args.turns or (1 if part == "feddse" else 3)
            ratios |= show(part, medians([run_all(part, old) for _ in range(turns)]))
    write_json(args.json, ratios)
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
