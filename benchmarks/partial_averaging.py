"""Time and memory of partial averaging, as ratios in one run.

    python -m benchmarks.partial_averaging [--only=rounds,memory] [--rounds=5]

Prints: a round of partial averaging (16 clients, ResNet20, tau = 10, batch 32, momentum 0.9)
against one of periodic averaging, and that against FedAvg's with the same steps, taking turns; and
the peak memory of a round of 128 clients of ResNet20 with two steps, in a process of its own.
Random data: what is timed does not depend on what is learnt.
"""

from __future__ import annotations

import argparse
import dataclasses
import resource
import statistics
import subprocess
import sys
import time
from typing import Any

PARTIAL, PERIODIC, FEDAVG = "partial_averaging", "periodic_averaging", "fedavg"
BARS = {"partial of periodic": 1.25, "periodic of fedavg": 1.1, "memory, GB": 4.0}


class Runner:
    """Rounds of an algorithm with all clients."""

    def __init__(self, name: str, clients: int, steps: int) -> None:
        from benchmarks import works
        from tff_partial.algorithms import registry
        from tff_partial.core import client_data

        work = dataclasses.replace(works.WORKS["resnet20"], clients=min(clients, 16))
        local = dataclasses.replace(work.local, steps=steps)
        entry = registry.ALGORITHMS[name]
        given: dict[str, Any] = {"population": clients} if "population" in entry.needs else {}
        self._process = entry.build(work.spec(), entry.params(local=local, **given))
        data = work.client_data()
        self._records = [client_data.create_record(*data[i % 16], i) for i in range(clients)]
        self._state, self._kept = self._process.initialize(), None
        if "population" in entry.needs:
            initial = [self._process.initial_client_state()] * clients
            ids = range(clients)
            self._kept = self._process.client_states(ids, [True] * clients, initial)

    def seconds(self) -> float:
        started = time.perf_counter()
        if self._kept is None:
            self._state = self._process.next(self._state, self._records).state
        else:
            output = self._process.next(self._state, self._kept, self._records)
            self._state, self._kept = output.state, output.client_states
        return time.perf_counter() - started


def rounds(count: int) -> None:
    runners = {name: Runner(name, 16, 10) for name in (PARTIAL, PERIODIC, FEDAVG)}
    times: dict[str, list[float]] = {name: [] for name in runners}
    for turn in range(count + 1):
        for name, runner in runners.items():
            seconds = runner.seconds()
            if turn:
                times[name].append(seconds)
            else:
                print(f"{name:20s} first round {seconds:7.2f} s", flush=True)
    medians = {name: statistics.median(found) for name, found in times.items()}
    for name, seconds in medians.items():
        print(f"{name:20s}{seconds:19.2f} s")
    report("partial of periodic", medians[PARTIAL] / medians[PERIODIC])
    report("periodic of fedavg", medians[PERIODIC] / medians[FEDAVG])


def memory() -> None:
    runner = Runner(PARTIAL, 128, 2)
    for _ in range(2):
        runner.seconds()
    report("memory, GB", resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**20)


def report(label: str, value: float) -> None:
    print(f"{label:20s}{value:19.2f}    (at most {BARS[label]})", flush=True)


def main(argv: list[str]) -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--only", default="rounds,memory")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--child", action="store_true", help=argparse.SUPPRESS)
    flags = parser.parse_args(argv)
    from tff_partial import runtime

    if flags.child:
        runtime.set_default()
        memory()
        return 0
    if "memory" in flags.only:
        command = [sys.executable, "-m", "benchmarks.partial_averaging", "--child"]
        subprocess.run(command, check=True)
    if "rounds" in flags.only:
        runtime.set_default()
        rounds(flags.rounds)
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
