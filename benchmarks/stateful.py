"""Time of rounds with client state, as ratios to FedAvg's in one run.

    python -m benchmarks.stateful [--only=rounds,checkpoint] [--rounds=15] [--json=FILE]

rounds:     a round of FedUMF (1,000 and 100,000 clients), SCAFFOLD and FedDC (100 and 1,000),
            FedDyn and FedUMF with FedDC (100), 10 clients selected, against FedAvg's, all through
            the round loop with its store of states (784-200-200-10, 600 examples a client, batch
            50, one epoch). Algorithms take turns, so that a disturbance meets all of them.
checkpoint: a checkpoint of a round of 10 clients of ResNet20 (10 steps of 32) against the round.
Data are random: what is timed does not depend on what is learnt.

100 clients come in turns, and rounds count from when all have been selected once. "First time" are
the rounds before: what a client keeps is new memory then, which the kernel (and on a virtual
machine its host) has to find and to clear. The kernel's processor time is printed, too. 1,000
clients are drawn, so that nearly all come for the first time.
"""

from __future__ import annotations

import argparse
import dataclasses
import os
import resource
import statistics
import sys
import tempfile
import time
from typing import Any

from benchmarks.measure import write_json

# At most so many times FedAvg's round, or the round itself.
BARS = {
    "fedumf, 1,000 clients": 2.3,
    "fedumf, 100,000 clients": 2.3,
    "scaffold": 1.5,
    "scaffold, 1,000 clients": 1.5,
    "feddc": 1.5,
    "feddc, 1,000 clients": 1.5,
    "checkpoint": 0.1,
}
SELECTED = 10
FEW = 100  # clients of those that keep something in every round
COMPILING = 3  # rounds that are not counted


class Clients:
    """Many clients that share the data of a few."""

    def __init__(self, data: list[Any], num_clients: int) -> None:
        self._data, self.num_clients = data, num_clients

    def client(self, client: int) -> Any:
        return self._data[client % len(self._data)]


class Stepper:
    """A run without evaluation and files, whose rounds are timed one by one."""

    def __init__(self, name: str, work: Any, num_clients: int, folder: str) -> None:
        from tff_partial.algorithms import registry
        from tff_partial.experiments import participation

        entry = registry.ALGORITHMS[name]
        given = {"population": num_clients} if "population" in entry.needs else {}
        process = entry.build(work.spec(), entry.params(local=work.local, **given))
        data = Clients(work.client_data(), num_clients)
        options = participation.LoopOptions(rounds=10**6, clients_per_round=SELECTED)
        self.clients = participation.Participation(process, data, options, folder)
        if num_clients == FEW:
            self.clients.cohort = self._take_turns  # type: ignore[method-assign]
        # As with clients that the loop has not seen lately.
        self.clients._record = self.clients._create_record  # type: ignore[assignment]
        self.state, self.done = process.initialize(), 0

    def _take_turns(self, round_num: int) -> list[int]:
        first = round_num * SELECTED % FEW
        return list(range(first, first + SELECTED))

    def seconds(self) -> float:
        """Run a round and return its time, that of the store included."""
        started = time.perf_counter()
        result = self.clients.run(self.state, self.done, self.clients.cohort(self.done))
        self.state, self.done = result.state, self.done + 1
        self.clients.states.put(result.kept, self.done)
        return time.perf_counter() - started


def rounds(count: int, folder: str) -> dict[str, dict[str, float]]:
    """Return the median seconds of each algorithm's rounds: all, kernel, and the first time."""
    from benchmarks import works

    work = dataclasses.replace(works.WORKS["mlp_10"], clients=20)
    names = {
        "fedavg": ("fedavg", FEW),
        "fedumf, 1,000 clients": ("fedumf", 1000),
        "fedumf, 100,000 clients": ("fedumf", 100_000),
        "scaffold": ("scaffold", FEW),
        "scaffold, 1,000 clients": ("scaffold", 1000),
        "feddyn": ("feddyn", FEW),
        "feddc": ("feddc", FEW),
        "feddc, 1,000 clients": ("feddc", 1000),
        "fedumf_feddc": ("fedumf_feddc", FEW),
    }
    steppers = {
        label: Stepper(name, work, clients, os.path.join(folder, str(i)))
        for i, (label, (name, clients)) in enumerate(names.items())
    }
    times: dict[str, list[tuple[float, float]]] = {label: [] for label in steppers}
    for _ in range(FEW // SELECTED + count):
        for label, stepper in steppers.items():
            kernel = resource.getrusage(resource.RUSAGE_SELF).ru_stime
            seconds = stepper.seconds()
            kernel = resource.getrusage(resource.RUSAGE_SELF).ru_stime - kernel
            times[label].append((seconds, kernel))
    return {label: _medians(pairs) for label, pairs in times.items()}


def _medians(times: list[tuple[float, float]]) -> dict[str, float]:
    seconds, kernel = zip(*times)
    again = slice(FEW // SELECTED, None)
    return {
        "seconds": statistics.median(seconds[again]),
        "kernel": statistics.median(kernel[again]),
        "first time": statistics.median(seconds[COMPILING : FEW // SELECTED]),
        "first time, kernel": statistics.median(kernel[COMPILING : FEW // SELECTED]),
    }


def checkpoint(count: int, folder: str) -> dict[str, float]:
    """Return the seconds of a round of ResNet20, and of its checkpoint with the clients' states."""
    from benchmarks import works
    from tff_partial.experiments import outputs

    work = dataclasses.replace(works.WORKS["resnet20"], clients=10)
    stepper = Stepper("scaffold", work, 1000, folder)
    files = outputs.Outputs(folder, stepper.clients.states)
    files.restore(stepper.state)
    times: dict[str, list[float]] = {"round": [], "checkpoint": []}
    for turn in range(count + 1):
        seconds = stepper.seconds()
        started = time.perf_counter()
        files.checkpoint(stepper.done, stepper.state)
        if turn:
            times["round"].append(seconds)
            times["checkpoint"].append(time.perf_counter() - started)
    return {name: statistics.median(values) for name, values in times.items()}


def report(label: str, seconds: float, ratio: float, of_what: str) -> None:
    bar = f"  (at most {BARS[label]})" if label in BARS else ""
    print(f"{label:26s}{1000 * seconds:9.1f} ms{ratio:7.2f} of {of_what}{bar}", flush=True)


def report_rounds(figures: dict[str, dict[str, float]]) -> None:
    base = figures["fedavg"]
    for label, row in figures.items():
        report(label, row["seconds"], row["seconds"] / base["seconds"], "FedAvg's")
        if "clients" not in label:  # those are drawn and do not come in turns
            first, kernel = row["first time"], row["first time, kernel"]
            print(
                f"    kernel {1000 * row['kernel']:.1f} ms; first time {1000 * first:.1f} ms, "
                f"{first / base['first time']:.2f} of FedAvg's, kernel {1000 * kernel:.1f} ms"
            )


def main(argv: list[str]) -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--only", default="rounds,checkpoint", help="What to measure.")
    parser.add_argument("--rounds", type=int, default=15, help="Rounds that count.")
    parser.add_argument("--json", help="File for the figures.")
    flags = parser.parse_args(argv)
    from tff_partial import runtime

    runtime.set_default()
    figures: dict[str, Any] = {}
    with tempfile.TemporaryDirectory() as folder:
        if "rounds" in flags.only:
            figures["rounds"] = rounds(flags.rounds, os.path.join(folder, "rounds"))
            report_rounds(figures["rounds"])
        if "checkpoint" in flags.only:
            count = max(flags.rounds // 3, 3)
            seconds = checkpoint(count, os.path.join(folder, "resnet20"))
            figures["checkpoint"] = seconds
            report("round of resnet20", seconds["round"], 1.0, "itself")
            ratio = seconds["checkpoint"] / seconds["round"]
            report("checkpoint", seconds["checkpoint"], ratio, "the round's")
    write_json(flags.json, figures)
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
